import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, CD-13, CD-105 and CD-110, of one-to-ones: which of the two sides keeps the state is none
/// of the application's business.
@Suite("A mandatory to-one, whichever side of a one-to-one it is")
struct MandatoryInverseTests {
    /// Every part must be in a whole. The state is at the side whose name comes first.
    ///
    /// - Parameter isStored: whether that is the mandatory side.
    private static func model(isStored: Bool) throws -> ManagedObjectModel {
        let (part, whole) = names(isStored)
        return try ManagedObjectModel(entities: [
            EntityDescription(
                part, mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("whole", to: whole, inverse: "part", isOptional: false)]),
            EntityDescription(
                whole, mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("part", to: part, inverse: "whole")]),
        ])
    }

    private static func names(_ isStored: Bool) -> (part: String, whole: String) {
        isStored ? ("Axle", "Car") : ("Engine", "Car")
    }

    private static func stored(_ isStored: Bool) throws -> (TestStore, ManagedObjectContext) {
        try TestStore.withContext(try model(isStored: isStored))
    }

    /// A part in a whole, saved.
    private static func pair(
        in context: ManagedObjectContext, _ isStored: Bool
    ) throws -> (part: ManagedObject, whole: ManagedObject) {
        let part = context.insert(names(isStored).part)
        let whole = context.insert(names(isStored).whole)
        whole.setRelatedObject(part, forKey: "part")
        try context.save()
        return (part, whole)
    }

    private static func expectMissing(
        _ context: ManagedObjectContext, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let error = try #require(
            throws: CoordinatorError.self, sourceLocation: sourceLocation
        ) { try context.save() }
        #expect(error.code == .validationFailed, sourceLocation: sourceLocation)
        #expect(error.number == 1570, sourceLocation: sourceLocation)
        #expect(error.failures.map(\.property) == ["whole"], sourceLocation: sourceLocation)
    }

    @Test("CD-105: an insert without it fails, one with it is saved", arguments: [true, false])
    func inserted(isStored: Bool) throws {
        let (_, context) = try Self.stored(isStored)
        try context.performAndWait {
            let part = context.insert(Self.names(isStored).part)
            part["name"] = "a"
            try Self.expectMissing(context)
            let whole = context.insert(Self.names(isStored).whole)
            part.setRelatedObject(whole, forKey: "whole")
            try context.save()
            #expect(part.relatedObject(forKey: "whole") === whole)
        }
    }

    @Test("CD-105: a change that empties it fails, from either side", arguments: [true, false])
    func emptied(isStored: Bool) throws {
        let (store, context) = try Self.stored(isStored)
        try context.performAndWait {
            let (part, whole) = try Self.pair(in: context, isStored)
            whole.setRelatedObject(nil, forKey: "part")
            try Self.expectMissing(context)
            context.rollback()
            part.setRelatedObject(nil, forKey: "whole")
            try Self.expectMissing(context)
            context.rollback()
            #expect(part.relatedObject(forKey: "whole") === whole)
            // Somebody else's is taken away by giving the whole another part.
            let other = context.insert(Self.names(isStored).part)
            other.setRelatedObject(whole, forKey: "whole")
            try Self.expectMissing(context)
            context.rollback()
            #expect(
                try store.storedReference(part.objectID, "whole")
                    == .reference(whole.objectID.row))
        }
    }

    @Test(
        "CD-105: a part moves to another whole, and may go with its own", arguments: [true, false])
    func moved(isStored: Bool) throws {
        let (store, context) = try Self.stored(isStored)
        try context.performAndWait {
            let (part, whole) = try Self.pair(in: context, isStored)
            let other = context.insert(Self.names(isStored).whole)
            other.setRelatedObject(part, forKey: "part")
            try context.save()
            #expect(whole.relatedObject(forKey: "part") == nil)
            part["name"] = "b"
            try context.save()
            context.delete(part)
            context.delete(other)
            try context.save()
            #expect(try !store.isStored(part.objectID))
            #expect(try store.isStored(whole.objectID))
        }
    }

    @Test("CD-13: overwriting takes no part away from the whole that has it by now")
    func overwrittenFromOther() throws {
        let (store, a) = try Self.stored(false)
        let b = store.context(.overwrite)
        try a.performAndWait {
            let (part, whole) = try Self.pair(in: a, false)
            try b.performAndWait {
                let read = try b.existingObject(with: whole.objectID)
                let (other, another) = (a.insert("Engine"), a.insert("Car"))
                another.setRelatedObject(part, forKey: "part")
                other.setRelatedObject(whole, forKey: "whole")
                try a.save()
                read["name"] = "b"
                try b.save()
                #expect(
                    try store.storedReference(whole.objectID, "part")
                        == .reference(other.objectID.row))
                #expect(
                    try store.storedReference(another.objectID, "part")
                        == .reference(part.objectID.row))
            }
            #expect(try store.stored(whole.objectID, "name") == "b")
        }
    }

    @Test("CD-13: overwriting brings no part back to a whole that another part needs by now")
    func overwritten() throws {
        let (store, a) = try Self.stored(true)
        let b = store.context(.overwrite)
        try a.performAndWait {
            let (part, whole) = try Self.pair(in: a, true)
            try b.performAndWait {
                let read = try b.existingObject(with: part.objectID)
                let (other, another) = (a.insert("Car"), a.insert("Axle"))
                part.setRelatedObject(other, forKey: "whole")
                another.setRelatedObject(whole, forKey: "whole")
                try a.save()
                read["name"] = "b"
                try b.save()
                #expect(read["whole"] == PropertyValue.reference(other.objectID.row))
                #expect(
                    try store.storedReference(another.objectID, "whole")
                        == .reference(whole.objectID.row))
            }
            #expect(try store.stored(part.objectID, "name") == "b")
        }
    }

    @Test("What saves that had not seen each other empty together is listed, and can be mended")
    func emptiedTogether() throws {
        let model = try Self.model(isStored: false)
        let nodes = try (1...2).map { try EngineNode(model, node: $0) }
        let wholes = try (0..<3).map { _ in try nodes[0].insert("Car") }
        let saved = try nodes[0].save(
            try nodes[0].insertion("Engine"),
            try nodes[0].change(wholes[0], ["part": .reference(RowID(-1))]))
        let part = ManagedObjectID(
            entityName: "Engine", row: try #require(saved.insertedRows.first?.row))
        try exchange(nodes[0], nodes[1])
        try nodes[0].update(wholes[1], ["part": .reference(part.row)])
        try nodes[1].delete(wholes[1])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.members(part, "whole").isEmpty)
            let conflict = try #require(try node.conflicts(kind: .count).first)
            #expect(conflict.violation == .missingMandatoryProperty)
            #expect(conflict.id.description == "Engine.\(part.row).whole.count")
            let code = try node.code { try node.update(part, ["name": .string("a")]) }
            #expect(code == .validationFailed)
        }
        try nodes[1].update(wholes[2], ["part": .reference(part.row)])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.members(part, "whole") == [wholes[2].row])
            #expect(try node.conflicts(kind: .count).isEmpty)
        }
    }

    @Test("CD-110: a delete that would empty it fails", arguments: [true, false])
    func deleted(isStored: Bool) throws {
        let (store, context) = try Self.stored(isStored)
        try context.performAndWait {
            let (part, whole) = try Self.pair(in: context, isStored)
            context.delete(whole)
            try Self.expectMissing(context)
            #expect(try store.isStored(whole.objectID))
            context.delete(part)
            try context.save()
            #expect(try !store.isStored(whole.objectID))
        }
    }
}
