import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, "Merge policies": what a context's policy does with an object that another
/// context on the same coordinator has changed since it was fetched.
@Suite struct MergePolicyConformanceTests {
    private static let byProperty: [MergePolicy] = [
        .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump,
    ]

    @Test("CD-1: a new context's policy is error, a background task's too")
    func newContext() async throws {
        let store = try TestStore()
        #expect(store.coordinator.newBackgroundContext().mergePolicy == .error)
        let policy = await store.coordinator.performBackgroundTask { $0.mergePolicy }
        #expect(policy == .error)
    }

    // MARK: error

    @Test("CD-2: with error, both change p; the save throws 133020 and the store keeps A's p")
    func bothChangeUnderError() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code == .mergeConflict)
        #expect(error.code.number == 133_020)
        #expect(try pair.stored("p") == "pA")
    }

    @Test("CD-3: with error, A changes p and B changes q; the save throws 133020 still")
    func disjointUnderError() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bSaves(["q": "qB"]) }
        #expect(error.code.number == 133_020)
        #expect(try pair.stored("q") == "q0")
    }

    @Test("CD-4: after a failed save B still has its changes")
    func changesStay() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        _ = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(pair.b.performAndWait { pair.b.hasChanges })
        #expect(pair.inB("p") == "pB")
        // And a second attempt fails as the first did.
        #expect(try pair.error { try pair.bSaves([:]) }.code == .mergeConflict)
    }

    @Test("CD-5: the error lists one conflict per object, not per property")
    func oneConflictAnObject() throws {
        let pair = try Siblings()
        let second = try pair.store.insert("Item", ["p": "p1", "q": "q1"])
        let yB = try pair.b.performAndWait { try pair.b.existingObject(with: second) }
        try pair.aSaves(["p": "pA", "q": "qA"])
        try pair.store.update(second, "p", "pA")
        let error = try pair.error {
            try pair.b.performAndWait {
                yB["p"] = "pB"
                pair.xB["p"] = "pB"
                pair.xB["q"] = "qB"
                try pair.b.save()
            }
        }
        #expect(error.conflicts.map(\.object).sorted() == [pair.id, second].sorted())
    }

    @Test("CD-6: a conflict has both versions, what B read and what A saved, nothing persisted")
    func snapshots() throws {
        let pair = try Siblings()
        let old = try pair.store.version(of: pair.id)
        try pair.aSaves(["p": "pA"])
        let new = try pair.store.version(of: pair.id)
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        let conflict = try #require(error.conflicts.first)
        #expect(conflict.oldVersion == old)
        #expect(conflict.newVersion == new)
        #expect(old != new)
        #expect(conflict.objectSnapshot?["p"] == .string("p0"))
        #expect(conflict.cachedSnapshot?["p"] == .string("pA"))
        #expect(conflict.persistedSnapshot == nil)
    }

    @Test("CD-7: where another coordinator wrote, the conflict has what it persisted too")
    func persistedSnapshot() throws {
        let pair = try Siblings()
        let other = try TestStore(node: 2)
        try other.take(from: pair.store)
        try other.update(pair.id, "p", "pOther")
        try pair.store.take(from: other)
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        let conflict = try #require(error.conflicts.first)
        #expect(conflict.cachedSnapshot != nil)
        #expect(conflict.persistedSnapshot?["p"] == .string("pOther"))
    }

    @Test("CD-8: snapshots have attributes and to-ones as IDs, and no to-manys")
    func snapshotKeys() throws {
        let pair = try Siblings()
        let owner = try pair.store.insert("Person", ["name": "Ada"])
        try pair.a.performAndWait {
            pair.xA.setRelatedObject(pair.a.object(with: owner), forKey: "owner")
            try pair.a.save()
        }
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        let snapshot = try #require(error.conflicts.first?.cachedSnapshot)
        #expect(snapshot.keys.sorted() == ["n", "owner", "p", "q"])
        #expect(snapshot["owner"] == .reference(owner.row))
    }

    // MARK: both update

    /// What A and B save of X, {p0, q0} when both fetched it, and what the store and B have then.
    struct Update: CustomTestStringConvertible {
        /// The line of CONFORMANCE.md.
        let line: String
        let policy: MergePolicy
        var a = ["p": "pA"]
        var b = ["p": "pB"]
        let p: String
        var q = "q0"

        var testDescription: String { "\(line) \(policy)" }
    }

    private static let updates: [Update] = {
        let (a, b) = (["p": "pA", "q": "qA"], ["p": "pB", "q": "qB"])
        let all = [
            Update(line: "CD-9", policy: .mergeByPropertyStoreTrump, p: "pA"),
            Update(line: "CD-10", policy: .mergeByPropertyStoreTrump, b: b, p: "pA", q: "qB"),
            Update(line: "CD-11", policy: .mergeByPropertyObjectTrump, p: "pB"),
            Update(line: "CD-12", policy: .mergeByPropertyObjectTrump, a: a, p: "pB", q: "qA"),
            Update(line: "CD-13", policy: .overwrite, a: a, p: "pB"),
            Update(line: "CD-14", policy: .rollback, b: b, p: "pA"),
        ]
        return all
            + byProperty.map { Update(line: "CD-15", policy: $0, b: ["q": "qB"], p: "pA", q: "qB") }
    }()

    @Test(
        "CD-9 to CD-15: B's policy says what becomes of both saves, in the store and in B",
        arguments: updates)
    func bothUpdate(_ update: Update) throws {
        let pair = try Siblings(update.policy)
        try pair.aSaves(update.a)
        try pair.bSaves(update.b)
        #expect(try pair.stored("p") == update.p)
        #expect(try pair.stored("q") == update.q)
        #expect(pair.inB("p") == update.p)
        #expect(pair.inB("q") == update.q)
        #expect(!pair.b.performAndWait { pair.b.hasChanges })
    }

    // MARK: by row

    @Test(
        "CD-13: overwriting leaves a reference alone that leads to what A deleted: it reads as nil")
    func overwriteOfDangling() throws {
        let pair = try Siblings(.overwrite)
        try pair.a.performAndWait {
            let owner = pair.a.insert("Person", ["name": "owner"])
            pair.xA.setRelatedObject(owner, forKey: "owner")
            try pair.a.save()
        }
        try pair.b.performAndWait {
            pair.b.refresh(pair.xB, mergeChanges: false)
            #expect(pair.xB.relatedObject(forKey: "owner") != nil)
            try pair.a.performAndWait {
                if let owner = pair.xA.relatedObject(forKey: "owner") { pair.a.delete(owner) }
                pair.xA["p"] = "pA"
                try pair.a.save()
            }
            pair.xB["q"] = "qB"
            // What B never assigned cannot fail it: the register has held that value all along.
            try pair.b.save()
            #expect(pair.xB.relatedObject(forKey: "owner") == nil)
        }
        #expect(try pair.stored("p") == "p0")
        #expect(try pair.stored("q") == "qB")
    }

    @Test(
        "CD-13: overwriting is not refused for a reference that B read and that leads to nothing now"
    )
    func overwriteOfGone() throws {
        let pair = try Siblings(.overwrite)
        let former = try pair.store.insert("Person", ["name": "former"])
        try pair.a.performAndWait {
            pair.xA.setRelatedObject(pair.a.object(with: former), forKey: "owner")
            try pair.a.save()
        }
        try pair.b.performAndWait {
            pair.b.refresh(pair.xB, mergeChanges: false)
            #expect(pair.xB.relatedObject(forKey: "owner")?.objectID == former)
            try pair.a.performAndWait {
                let owner = pair.a.insert("Person", ["name": "latter"])
                pair.xA.setRelatedObject(owner, forKey: "owner")
                pair.a.delete(pair.a.object(with: former))
                try pair.a.save()
            }
            pair.xB["q"] = "qB"
            try pair.b.save()
            // The object as B had it: its owner is gone.
            #expect(pair.xB.relatedObject(forKey: "owner") == nil)
        }
        #expect(try pair.stored("q") == "qB")
        #expect(try pair.store.storedReference(pair.id, "owner") == .null)
    }

    /// - Parameter hadTarget: whether B read the reference before its target was deleted, or after.
    @Test(
        "CD-13: overwriting does not empty a mandatory reference that B never assigned",
        arguments: [true, false])
    func overwriteOfMandatory(hadTarget: Bool) throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription("Player", attributes: [.init("name", .string)]),
                EntityDescription(
                    "Medal", attributes: [.init("name", .string)],
                    relationships: [.init("holder", to: "Player", isOptional: false)]),
            ]))
        let (a, b) = (store.context(), store.context(.overwrite))
        let (former, latter) = (try store.insert("Player"), try store.insert("Player"))
        let id = try a.performAndWait {
            let medal = a.insert("Medal")
            medal.setRelatedObject(a.object(with: former), forKey: "holder")
            try a.save()
            return medal.objectID
        }
        if !hadTarget { try store.delete(former) }
        try b.performAndWait {
            let medal = try b.existingObject(with: id)
            #expect((medal["holder"] as PropertyValue).isNull != hadTarget)
            try a.performAndWait {
                let medal = try a.existingObject(with: id)
                medal.setRelatedObject(a.object(with: latter), forKey: "holder")
                medal["name"] = "nA"
                try a.save()
            }
            if hadTarget { try store.delete(former) }
            medal["name"] = "nB"
            try b.save()
            #expect(medal["holder"] == PropertyValue.reference(latter.row))
        }
        #expect(try store.stored(id, "name") == "nB")
    }

    @Test("CD-13: overwriting brings back no reference that others' counts do not allow any more")
    func overwriteOfCounted() throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Team",
                    relationships: [
                        .init(
                            "players", to: "Player", inverse: "team", isToMany: true,
                            isOptional: false)
                    ]),
                EntityDescription(
                    "Player", attributes: [.init("name", .string)],
                    relationships: [.init("team", to: "Team", inverse: "players")]),
            ]))
        let (a, b) = (store.context(), store.context(.overwrite))
        try a.performAndWait {
            let (former, latter) = (a.insert("Team"), a.insert("Team"))
            let players = (0..<3).map { _ in a.insert("Player") }
            for (player, team) in zip(players, [former, former, latter]) {
                player.setRelatedObject(team, forKey: "team")
            }
            try a.save()
            try b.performAndWait {
                let read = try b.existingObject(with: players[0].objectID)
                players[0].setRelatedObject(latter, forKey: "team")
                a.delete(players[2])
                try a.save()
                read["name"] = "nB"
                try b.save()
                #expect(read["team"] == PropertyValue.reference(latter.objectID.row))
            }
            #expect(try store.stored(players[0].objectID, "name") == "nB")
        }
    }

    // MARK: deletes

    @Test("CD-16: with error, A deletes, B updates; 133020 without a new version or snapshot")
    func deletedUnderError() throws {
        let pair = try Siblings()
        try pair.aDeletes()
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code.number == 133_020)
        let conflict = try #require(error.conflicts.first)
        #expect(conflict.oldVersion != nil)
        #expect(conflict.newVersion == nil)
        #expect(conflict.cachedSnapshot == nil)
        #expect(conflict.persistedSnapshot == nil)
    }

    @Test(
        "CD-17, CD-18: with either by-property policy, A deletes, B updates; X stays deleted",
        arguments: byProperty)
    func deletedByProperty(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        try pair.aDeletes()
        try pair.bSaves(["p": "pB"])
        #expect(try !pair.isStored())
        #expect(pair.b.performAndWait { pair.xB.managedObjectContext } == nil)
        #expect(!pair.b.performAndWait { pair.b.hasChanges })
    }

    @Test("CD-19: with overwrite, A deletes, B updates; X is there with all of B's state")
    func overwriteRevives() throws {
        let pair = try Siblings(.overwrite)
        try pair.aDeletes()
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "q0")
        // B's object is good for another save.
        try pair.bSaves(["q": "qB"])
        #expect(try pair.stored("q") == "qB")
    }

    /// - Parameter isOptional: whether the reference may lead nowhere.
    @Test(
        "CD-19: a reference that B read as nil, for its target is gone, comes back with the target",
        arguments: [true, false])
    func overwriteRevivesReference(isOptional: Bool) throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription("Player", attributes: [.init("name", .string)]),
                EntityDescription(
                    "Medal", mergePolicy: .mergeByPropertyObjectTrump,
                    attributes: [.init("name", .string)],
                    relationships: [.init("holder", to: "Player", isOptional: isOptional)]),
            ]))
        let (b, c) = (store.context(.overwrite), store.context(.overwrite))
        let holder = try store.insert("Player")
        let id = try b.performAndWait {
            let medal = b.insert("Medal")
            medal.setRelatedObject(b.object(with: holder), forKey: "holder")
            try b.save()
            return medal.objectID
        }
        let player = try c.performAndWait { try c.existingObject(with: holder) }
        try store.delete(holder)
        try b.performAndWait {
            let medal = try b.existingObject(with: id)
            b.refresh(medal, mergeChanges: false)
            #expect((medal["holder"] as PropertyValue).isNull)
            try store.delete(id)
            medal["name"] = "nB"
            try b.save()
            #expect((medal["holder"] as PropertyValue).isNull)
        }
        #expect(try store.stored(id, "name") == "nB")
        try c.performAndWait {
            player["name"] = "back"
            try c.save()
        }
        #expect(try store.storedReference(id, "holder") == .reference(holder.row))
    }

    @Test("CD-19: a reference written after B read the object does not come back with it")
    func overwriteRevivesNoLaterReference() throws {
        let pair = try Siblings(.overwrite)
        let owner = try pair.store.insert("Person", ["name": "Ada"])
        let (object, item) = try pair.b.performAndWait {
            let object = pair.b.insert("Item", ["p": "a"])
            try pair.b.save()
            return (object, object.objectID)
        }
        let later = pair.store.context(.overwrite)
        let person = try later.performAndWait { try later.existingObject(with: owner) }
        #expect(later.performAndWait { person["name"] == "Ada" })
        try pair.store.save { context in
            try context.existingObject(with: item)
                .setRelatedObject(try context.existingObject(with: owner), forKey: "owner")
        }
        try pair.store.delete(owner)
        try pair.store.delete(item)
        try pair.b.performAndWait {
            object["p"] = "mine"
            try pair.b.save()
        }
        try later.performAndWait {
            person["name"] = "back"
            try later.save()
        }
        #expect(try pair.store.stored(item, "p") == "mine")
        #expect(try pair.store.storedReference(item, "owner") == .null)
    }

    @Test("CD-20: with rollback, A deletes, B updates; X stays deleted, B's object is invalid")
    func rollbackOfDeleted() throws {
        let pair = try Siblings(.rollback)
        try pair.aDeletes()
        try pair.bSaves(["p": "pB"])
        #expect(try !pair.isStored())
        #expect(pair.b.performAndWait { pair.xB.managedObjectContext } == nil)
        #expect(pair.b.performAndWait { pair.b.registeredObject(for: pair.id) } == nil)
    }

    @Test("CD-21: with error, A updates, B deletes; the save throws 133020")
    func deleteUnderError() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bDeletes() }
        #expect(error.code.number == 133_020)
        #expect(try pair.stored("p") == "pA")
        #expect(pair.b.performAndWait { pair.xB.isDeleted })
    }

    @Test(
        "CD-22: with either trump or overwrite, A updates, B deletes; X is deleted",
        arguments: byProperty + [.overwrite])
    func deleteWins(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        try pair.aSaves(["p": "pA"])
        try pair.bDeletes()
        #expect(try !pair.isStored())
    }

    @Test("CD-23: with rollback, A updates, B deletes; X survives with A's values")
    func rollbackOfDelete() throws {
        let pair = try Siblings(.rollback)
        try pair.aSaves(["p": "pA"])
        try pair.bDeletes()
        #expect(try pair.stored("p") == "pA")
        #expect(pair.inB("p") == "pA")
        #expect(!pair.b.performAndWait { pair.xB.isDeleted })
    }

    @Test("CD-23: what a delete that rollback gave up had taken out of references is back in them")
    func referencesToWhatWasNotDeleted() throws {
        let store = try TestStore()
        let people = try ["Ada", "Bob"].map { try store.insert("Person", ["name": $0]) }
        let item = try store.insert("Item")
        let b = store.context(.rollback)
        let (ada, x) = try b.performAndWait {
            let (ada, x) = (try b.existingObject(with: people[0]), b.object(with: item))
            x.setRelatedObject(ada, forKey: "owner")
            try b.save()
            return (ada, x)
        }
        try store.update(people[0], "name", "Eve")
        try b.performAndWait {
            b.delete(ada)
            try b.save()
            #expect(!ada.isDeleted && !b.hasChanges)
            #expect(x["owner"] == .reference(people[0].row))
            #expect(x.committedValues(forKeys: ["owner"])["owner"] == x["owner"])
            #expect(ada.relatedObjects(forKey: "items") == [x])
        }
        #expect(try store.storedMembers(people[0], "items") == [item])
        // What B had read of the reference is what the store has, so its change of it stands.
        try store.update(item, "p", "pA")
        b.mergePolicy = .mergeByPropertyStoreTrump
        try b.performAndWait {
            x.setRelatedObject(b.object(with: people[1]), forKey: "owner")
            try b.save()
        }
        #expect(try store.storedMembers(people[1], "items") == [item])
    }

    @Test("A context has what its save changed besides, and may go on from it")
    func changedBesides() throws {
        let store = try TestStore()
        let person = try store.insert("Person", ["name": "Ada"])
        let ids = try ["1", "2"].map { try store.insert("Passport", ["number": $0]) }
        func give(_ id: ManagedObjectID) throws {
            let context = store.context()
            try context.performAndWait {
                try context.existingObject(with: id)
                    .setRelatedObject(context.object(with: person), forKey: "holder")
                try context.save()
            }
        }
        try give(ids[0])
        let b = store.context(.overwrite)
        let passports = try ids.map { try b.existing($0) }
        // Meanwhile the holder and the second number become others.
        try give(ids[1])
        try store.update(ids[1], "number", "2A")
        try b.performAndWait {
            passports[0]["number"] = "1B"
            try b.save()
            // The first has its holder back, so the save took them from the second.
            #expect(passports[0]["holder"] == .reference(person.row))
            #expect(passports[1]["holder"] == PropertyValue.null)
            #expect(passports[1]["number"] == .string("2A"))
            b.mergePolicy = .error
            passports[1]["number"] = "2B"
            try b.save()
        }
        #expect(try store.stored(ids[1], "number") == "2B")
    }

    @Test(
        "CD-24: both delete; the save succeeds under every policy but error",
        arguments: byProperty + [.overwrite, .rollback])
    func bothDelete(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        try pair.aDeletes()
        try pair.bDeletes()
        #expect(try !pair.isStored())
        #expect(!pair.b.performAndWait { pair.b.hasChanges })
    }

    @Test("CD-24: both delete; under error the save throws")
    func bothDeleteUnderError() throws {
        let pair = try Siblings()
        try pair.aDeletes()
        #expect(try pair.error { try pair.bDeletes() }.code == .mergeConflict)
        #expect(try !pair.isStored())
    }

    // MARK: relationships

    @Test("CD-25: a to-one that both changed follows the rule of attributes", arguments: byProperty)
    func toOne(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        let people = try ["Ada", "Bob"].map { try pair.store.insert("Person", ["name": $0]) }
        try pair.a.performAndWait {
            pair.xA.setRelatedObject(pair.a.object(with: people[0]), forKey: "owner")
            try pair.a.save()
        }
        try pair.b.performAndWait {
            pair.xB.setRelatedObject(pair.b.object(with: people[1]), forKey: "owner")
            try pair.b.save()
        }
        let winner = policy == .mergeByPropertyStoreTrump ? 0 : 1
        #expect(try pair.store.storedMembers(people[winner], "items") == [pair.id])
        #expect(try pair.store.storedMembers(people[1 - winner], "items") == [])
        let inB = pair.b.performAndWait { pair.xB.relatedObject(forKey: "owner")?.objectID }
        #expect(inB == people[winner])
        let members = pair.b.performAndWait {
            people.map { pair.b.object(with: $0).relatedObjects(forKey: "items").map(\.objectID) }
        }
        #expect(members[winner] == [pair.id])
        #expect(members[1 - winner] == [])
    }

    @Test(
        "CD-26: A adds x and B adds y to one many-to-many; both are members, from both sides",
        arguments: byProperty)
    func manyToMany(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        let tags = try ["x", "y"].map { try pair.store.insert("Tag", ["name": $0]) }
        try pair.a.performAndWait {
            pair.xA.add(pair.a.object(with: tags[0]), toRelationship: "tags")
            try pair.a.save()
        }
        try pair.b.performAndWait {
            pair.b.object(with: tags[1]).add(pair.xB, toRelationship: "items")
            try pair.b.save()
        }
        #expect(try pair.store.storedMembers(pair.id, "tags") == tags.sorted())
        for tag in tags { #expect(try pair.store.storedMembers(tag, "items") == [pair.id]) }
    }

    @Test("CD-27: A and B each add a child to one parent, under error: no conflict")
    func childrenOfOneParent() throws {
        let store = try TestStore()
        let parent = try store.insert("Person", ["name": "Ada"])
        let children = try ["x", "y"].map { try store.insert("Item", ["p": $0]) }
        let contexts = [store.context(), store.context()]
        let parents = try contexts.map { context in
            try context.performAndWait { try context.existingObject(with: parent) }
        }
        for index in 0...1 {
            let context = contexts[index]
            try context.performAndWait {
                parents[index].add(context.object(with: children[index]), toRelationship: "items")
                try context.save()
            }
        }
        #expect(try store.storedMembers(parent, "items") == children.sorted())
    }

    // MARK: detection

    @Test("CD-28: detectConflicts(for:) on an unchanged X makes the save conflict")
    func detectConflicts() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        let error = try pair.error {
            try pair.b.performAndWait {
                pair.b.detectConflicts(for: pair.xB)
                pair.b.insert("Item")["p"] = "other"
                try pair.b.save()
            }
        }
        #expect(error.conflicts.map(\.object) == [pair.id])
        // Without A's change there is nothing to detect.
        let calm = try Siblings()
        try calm.b.performAndWait {
            calm.b.detectConflicts(for: calm.xB)
            calm.b.insert("Item")["p"] = "other"
            try calm.b.save()
        }
    }

    @Test("CD-29: an unchanged, unmarked object never takes part in conflict detection")
    func unchanged() throws {
        let pair = try Siblings()
        try pair.aSaves(["p": "pA"])
        try pair.b.performAndWait {
            pair.b.insert("Item")["p"] = "other"
            try pair.b.save()
        }
        #expect(pair.inB("p") == "p0")
    }
}
