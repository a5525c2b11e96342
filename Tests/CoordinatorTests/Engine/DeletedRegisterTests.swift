import Merge
import Testing

@testable import Coordinator

/// The tombstone of an object that merges as a whole has none of its values, so the journal has to.
@Suite("Undoing what a context did to an object that is deleted")
struct DeletedRegisterTests {
    private static let policies: [MergePolicy] = [
        .error, .errorByRow, .rollback, .overwrite, .mergeByPropertyObjectTrump,
    ]

    private func node(_ policy: MergePolicy) throws -> EngineNode {
        try EngineNode(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Person", mergePolicy: policy,
                    attributes: [
                        .init("name", .string), .init("age", .integer64, isOptional: false),
                    ])
            ]), node: 1)
    }

    private func undo(_ node: EngineNode) throws {
        let entry = try #require(try node.conflicts(kind: .save, isOpen: false).first)
        try node.undo(entry.id)
    }

    @Test(
        "A delete that overwrote a newer value is undone with all values, also once it is collected",
        arguments: policies, [true, false])
    func delete(policy: MergePolicy, isCollected: Bool) throws {
        let node = try node(policy)
        let id = try node.insert("Person", ["name": .string("a"), "age": .integer(5)])
        let context = node.coordinator.newBackgroundContext()
        context.mergePolicy = .overwrite
        try context.performAndWait {
            let object = try context.existingObject(with: id)
            #expect(object["name"] == PropertyValue.string("a"))
            try node.update(id, ["name": .string("b")])
            context.delete(object)
            try context.save()
        }
        #expect(try node.row(id) == nil)
        if isCollected {
            let result = try node.coordinator.collect(stable: try node.vector)
            #expect(result.tombstonesCollected == 1)
        }
        try undo(node)
        #expect(try node.value(id, "name") == .string("b"))
        #expect(try node.value(id, "age") == .integer(5))
    }

    @Test(
        "An edit that was dropped, for its object was deleted, is undone, also once that is collected",
        arguments: policies, [true, false])
    func droppedEdit(policy: MergePolicy, isCollected: Bool) throws {
        let node = try node(policy)
        let id = try node.insert("Person", ["name": .string("a"), "age": .integer(5)])
        let context = node.coordinator.newBackgroundContext()
        context.mergePolicy = .rollback
        try context.performAndWait {
            let object = try context.existingObject(with: id)
            object["name"] = PropertyValue.string("b")
            try node.delete(id)
            try context.save()
        }
        // A dropped value is reported with the time of the save that wrote nothing.
        let dropped = try #require(try node.conflicts(kind: .save, isOpen: false).first?.sides.last)
        #expect(dropped.dot == nil)
        #expect(dropped.timestamp?.milliseconds ?? 0 > 1_000_000_000_000)
        if isCollected { _ = try node.coordinator.collect(stable: try node.vector) }
        try undo(node)
        #expect(try node.value(id, "name") == .string("b"))
        #expect(try node.value(id, "age") == .integer(5))
    }

    @Test(
        "What only the log knew, and has forgotten, is refused rather than brought back in part")
    func droppedPart() async throws {
        let node = try node(.rollback)
        let id = try node.insert("Person", ["name": .string("a"), "age": .integer(5)])
        let version = try node.version(id)
        let vector = try node.vector
        try node.delete(id)
        let token = try node.coordinator.currentToken
        #expect(try await node.coordinator.purgeHistory(before: token, stable: vector) > 0)
        try node.update(id, ["name": .string("b")], version: version, policy: .rollback)
        let entry = try #require(try node.conflicts(kind: .save, isOpen: false).first)
        let code = try node.code { try node.undo(entry.id) }
        #expect(code == .objectNotFound, "\(entry.sides)")
    }
}
