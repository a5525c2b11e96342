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

    // MARK: by property

    @Test("CD-9: with storeTrump, both change p; store and B have A's p without a refresh")
    func storeTrump() throws {
        let pair = try Siblings(.mergeByPropertyStoreTrump)
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pA")
        #expect(pair.inB("p") == "pA")
        #expect(!pair.b.performAndWait { pair.b.hasChanges })
    }

    @Test("CD-10: with storeTrump, A changes p, B changes p and q; p is A's, q is B's")
    func storeTrumpOverlap() throws {
        let pair = try Siblings(.mergeByPropertyStoreTrump)
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB", "q": "qB"])
        #expect(try pair.stored("p") == "pA")
        #expect(try pair.stored("q") == "qB")
    }

    @Test("CD-11: with objectTrump, both change p; p is B's")
    func objectTrump() throws {
        let pair = try Siblings(.mergeByPropertyObjectTrump)
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(pair.inB("p") == "pB")
    }

    @Test("CD-12: with objectTrump, A changes p and q, B changes p; p is B's, q is A's")
    func objectTrumpOverlap() throws {
        let pair = try Siblings(.mergeByPropertyObjectTrump)
        try pair.aSaves(["p": "pA", "q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "qA")
        #expect(pair.inB("q") == "qA")
    }

    @Test(
        "CD-15: with either by-property policy disjoint changes both survive", arguments: byProperty
    )
    func disjoint(policy: MergePolicy) throws {
        let pair = try Siblings(policy)
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["q": "qB"])
        #expect(try pair.stored("p") == "pA")
        #expect(try pair.stored("q") == "qB")
        #expect(pair.inB("p") == "pA")
    }

    // MARK: by row

    @Test("CD-13: with overwrite, A changes p and q, B changes p; p is B's, q as B read it")
    func overwrite() throws {
        let pair = try Siblings(.overwrite)
        try pair.aSaves(["p": "pA", "q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "q0")
        #expect(pair.inB("q") == "q0")
    }

    @Test("CD-13: overwriting leaves a reference alone whose target A deleted: it reads as nil")
    func overwriteOfDangling() throws {
        let pair = try Siblings(.overwrite)
        try pair.a.performAndWait {
            let owner = pair.a.insert("Person")
            owner["name"] = "owner"
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

    @Test("CD-13: overwriting is not refused for a reference that B read, whose target is gone")
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
                let owner = pair.a.insert("Person")
                owner["name"] = "latter"
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

    @Test("CD-14: with rollback, A changes p, B changes p and q; p is A's, q as it was, B clean")
    func rollbackPolicy() throws {
        let pair = try Siblings(.rollback)
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB", "q": "qB"])
        #expect(try pair.stored("p") == "pA")
        #expect(try pair.stored("q") == "q0")
        #expect(pair.inB("p") == "pA")
        #expect(pair.inB("q") == "q0")
        #expect(!pair.b.performAndWait { pair.b.hasChanges })
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
            people.map {
                pair.b.object(with: $0).relatedObjects(forKey: "items").map(\.objectID)
            }
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
