import Coordinator
import Merge
import Synchronization
import Testing

/// CONFORMANCE.md, "Merge policies": policies of an application's own.
@Suite struct ContextPolicyTests {
    /// Records what it is told and does what a test says, or hands it on.
    final class Policy: ContextMergePolicy, @unchecked Sendable {
        typealias Body = @Sendable (SaveConflicts, ManagedObjectContext) throws -> Bool

        private let body: Body
        private let heard = Mutex<[String]>([])

        /// - Parameter body: Gives whether the conflicts are handed on.
        init(_ merge: MergePolicy, _ body: @escaping Body = { _, _ in true }) {
            self.body = body
            super.init(merge: merge)
        }

        var calls: [String] { heard.withLock { $0 } }

        override func resolve(
            mergeConflicts conflicts: SaveConflicts, in context: ManagedObjectContext
        ) throws {
            heard.withLock { $0.append("merge") }
            if try body(conflicts, context) {
                try super.resolve(mergeConflicts: conflicts, in: context)
            }
        }

        override func resolve(
            optimisticLockingConflicts conflicts: [MergeConflict], in context: ManagedObjectContext
        ) throws {
            heard.withLock { $0.append("versions \(conflicts.count)") }
            try super.resolve(optimisticLockingConflicts: conflicts, in: context)
        }

        override func resolve(
            constraintConflicts conflicts: [ConstraintConflict], in context: ManagedObjectContext
        ) throws {
            heard.withLock { $0.append("keys \(conflicts.count)") }
            try super.resolve(constraintConflicts: conflicts, in: context)
        }
    }

    private struct Refusal: Error, Equatable {}

    private static func tagStore() throws -> TestStore {
        try TestStore(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Tag", mergePolicy: .mergeByPropertyObjectTrump,
                    attributes: [.init("name", .string), .init("colour", .string)],
                    uniquenessConstraints: [["name"]])
            ]))
    }

    /// Two tags with a unique name, and a context that renames one to a name which is taken meanwhile
    /// by the other, and has another version by now.
    private static func keysAndVersions(
        _ policy: ContextMergePolicy
    ) throws -> (TestStore, ManagedObjectContext, ManagedObjectID) {
        let store = try tagStore()
        let id = try store.insert("Tag", ["name": "a", "colour": "grey"])
        let context = store.coordinator.newBackgroundContext()
        context.mergePolicy = policy
        try context.performAndWait {
            let tag = try context.existingObject(with: id)
            tag["colour"] = "red"
            context.insert("Tag", ["name": "b", "colour": "green"])
        }
        try store.update(id, "colour", "blue")
        try store.insert("Tag", ["name": "b", "colour": "white"])
        return (store, context, id)
    }

    @Test(
        "CD-30: conflicts of versions are told before those of keys, by resolve(mergeConflicts:)")
    func order() throws {
        let policy = Policy(.mergeByPropertyObjectTrump)
        let (store, context, id) = try Self.keysAndVersions(policy)
        try context.performAndWait { () throws in try context.save() }
        #expect(policy.calls == ["merge", "versions 1", "merge", "keys 1"])
        #expect(try store.stored(id, "colour") == "red")
        let colours = try context.performAndWait {
            try context.fetch(FetchRequest("Tag")).compactMap { $0["colour"] as String? }.sorted()
        }
        #expect(colours == ["green", "red"])
    }

    @Test("CD-31: a policy that decides nothing and does not call super makes the save fail")
    func undecided() throws {
        let policy = Policy(.overwrite) { _, _ in false }
        let pair = try Siblings()
        pair.b.mergePolicy = policy
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code == .mergeConflict)
        #expect(error.conflicts.map(\.object) == [pair.id])
        #expect(policy.calls == ["merge"])
        #expect(pair.inB("p") == "pB")
        #expect(try pair.stored("p") == "pA")
    }

    @Test("CD-31: the same of keys")
    func undecidedKeys() throws {
        let policy = Policy(.overwrite) { conflicts, _ in conflicts.constraint.isEmpty }
        let (_, context, _) = try Self.keysAndVersions(policy)
        let error = try #require(throws: CoordinatorError.self) {
            try context.performAndWait { () throws in try context.save() }
        }
        #expect(error.code == .constraintConflict)
        #expect(error.constraintConflicts.map(\.constraint) == [["name"]])
        #expect(policy.calls == ["merge", "versions 1", "merge"])
    }

    @Test("CD-31: an error policy that is called as super makes the save fail")
    func handedToError() throws {
        let pair = try Siblings()
        pair.b.mergePolicy = Policy(.error)
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code == .mergeConflict)
        #expect(error.message.contains("has been changed since it was fetched"))
    }

    @Test("A policy that refreshes the object and keeps its change resolves by that")
    func refreshes() throws {
        let pair = try Siblings()
        let policy = Policy(.error) { conflicts, context in
            for conflict in conflicts.optimisticLocking {
                let object = context.object(with: conflict.object)
                let theirs = conflict.cachedSnapshot?["p"]
                context.refresh(object, mergeChanges: true)
                if case .string(let theirs) = theirs, let ours: String = object["p"] {
                    object["p"] = "\(theirs) and \(ours)"
                }
            }
            return false
        }
        pair.b.mergePolicy = policy
        try pair.aSaves(["p": "pA", "q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pA and pB")
        #expect(try pair.stored("q") == "qA")
        #expect(pair.inB("p") == "pA and pB")
        #expect(policy.calls == ["merge"])
    }

    @Test("A policy that gives another key resolves by that, again if that is taken too")
    func otherKeys() throws {
        let store = try Self.tagStore()
        for name in ["a", "a 2", "a 3"] { try store.insert("Tag", ["name": name]) }
        let context = store.coordinator.newBackgroundContext()
        let policy = Policy(.error) { conflicts, context in
            for object in conflicts.constraint.flatMap(\.conflictingObjects) {
                let tag = context.object(with: object)
                let words = (tag["name"] ?? "").split(separator: " ")
                let number = words.count > 1 ? Int(words[1]) ?? 1 : 1
                tag["name"] = "a \(number + 1)"
            }
            return false
        }
        context.mergePolicy = policy
        let name = try context.performAndWait { () throws -> String? in
            let tag = context.insert("Tag", ["name": "a"])
            try context.save()
            return tag["name"]
        }
        #expect(name == "a 4")
        #expect(policy.calls == ["merge", "merge", "merge"])
    }

    @Test("A policy may decide one conflict itself and hand the others on")
    func mixed() throws {
        let store = try TestStore()
        let ids = try ["1", "2"].map { try store.insert("Item", ["p": "p\($0)", "q": "q"]) }
        let context = store.coordinator.newBackgroundContext()
        let own = ids[0]
        let policy = Half(merge: .mergeByPropertyStoreTrump, own: own)
        context.mergePolicy = policy
        try context.performAndWait {
            for id in ids { try context.existingObject(with: id)["p"] = "mine" }
        }
        for id in ids { try store.update(id, "p", "theirs") }
        try context.performAndWait { () throws in try context.save() }
        #expect(try ids.map { try store.stored($0, "p") } == ["mine", "theirs"])
    }

    /// Keeps the changes of one object, and hands on the rest.
    final class Half: ContextMergePolicy, @unchecked Sendable {
        private let own: ManagedObjectID

        init(merge: MergePolicy, own: ManagedObjectID) {
            self.own = own
            super.init(merge: merge)
        }

        override func resolve(
            optimisticLockingConflicts conflicts: [MergeConflict], in context: ManagedObjectContext
        ) throws {
            for conflict in conflicts where conflict.object == own {
                context.refresh(context.object(with: own), mergeChanges: true)
            }
            try super.resolve(
                optimisticLockingConflicts: conflicts.filter { $0.object != own }, in: context)
        }
    }

    /// An item that notes what it is told.
    final class Item: ManagedObject {
        static let log = Mutex<[ObjectIdentifier: [String]]>([:])

        static func calls(of object: ManagedObject) -> [String] {
            log.withLock { $0[ObjectIdentifier(object)] ?? [] }
        }

        private func note(_ call: String) {
            Self.log.withLock { $0[ObjectIdentifier(self), default: []].append(call) }
        }

        override func awake(fromSnapshotEvents events: SnapshotEventType) {
            note("awake \(events.rawValue)")
        }

        override func willSave() { note("will save \(self["p"] as String? ?? "-")") }
    }

    @Test("CD-32: objects that a policy handed on are awakened with the flag of the merge policy")
    func awakened() throws {
        let store = try TestStore()
        let id = try store.insert("Item", ["p": "p0", "q": "q0"])
        let context = ManagedObjectContext(store.coordinator, classes: ["Item": Item.self])
        context.mergePolicy = Policy(.mergeByPropertyStoreTrump)
        let item = try context.performAndWait { try context.existingObject(with: id) }
        try context.performAndWait {
            item["p"] = "ours"
            try store.update(id, "p", "theirs")
            try context.save()
        }
        #expect(context.performAndWait { item["p"] } == "theirs")
        #expect(
            Item.calls(of: item)
                == [
                    "will save ours", "will save ours",
                    "awake \(SnapshotEventType.mergePolicy.rawValue)",
                ])
    }

    @Test("What a policy changes is asked with willSave and validation, as any change is")
    func willSave() throws {
        let store = try TestStore()
        let id = try store.insert("Item", ["p": "p0"])
        let context = ManagedObjectContext(store.coordinator, classes: ["Item": Item.self])
        context.mergePolicy = Policy(.overwrite) { _, context in
            context.object(with: id)["p"] = "decided"
            return true
        }
        let item = try context.performAndWait { try context.existingObject(with: id) }
        try context.performAndWait {
            item["p"] = "ours"
            try store.update(id, "p", "theirs")
            try context.save()
        }
        #expect(Item.calls(of: item).prefix(2) == ["will save ours", "will save decided"])
        #expect(try store.stored(id, "p") == "decided")
    }

    @Test("What was handed on is not handed on for what others save after it")
    func handedOnOnce() throws {
        let pair = try Siblings()
        let (store, id) = (pair.store, pair.id)
        let rounds = Mutex(0)
        let policy = Policy(.overwrite) { conflicts, _ in
            let round = rounds.withLock {
                $0 += 1; return $0
            }
            if round == 1 {
                try store.update(id, "q", "locked")
                return true
            }
            // Asked again, about the newer version.
            #expect(conflicts.optimisticLocking.first?.cachedSnapshot?["q"] == .string("locked"))
            throw Refusal()
        }
        pair.b.mergePolicy = policy
        try pair.aSaves(["p": "pA"])
        #expect(throws: Refusal()) { try pair.bSaves(["p": "pB"]) }
        #expect(policy.calls == ["merge", "versions 1", "merge"])
        #expect(try pair.stored("p") == "pA")
    }

    @Test("So it is with keys: another holder of the key is another conflict")
    func handedOnOnceForKeys() throws {
        let store = try Self.tagStore()
        let first = try store.insert("Tag", ["name": "a", "colour": "white"])
        let context = store.coordinator.newBackgroundContext()
        let rounds = Mutex(0)
        context.mergePolicy = Policy(.mergeByPropertyObjectTrump) { _, _ in
            guard
                rounds.withLock({
                    $0 += 1; return $0
                }) == 1
            else { throw Refusal() }
            try store.update(first, "name", "other")
            try store.insert("Tag", ["name": "a", "colour": "black"])
            return true
        }
        #expect(throws: Refusal()) {
            try context.performAndWait { () throws in
                context.insert("Tag", ["name": "a", "colour": "green"])
                try context.save()
            }
        }
        #expect(rounds.withLock { $0 } == 2)
    }

    @Test("In a pinned context a policy that refreshes sees what others have saved")
    func pinned() throws {
        let pair = try Siblings()
        pair.b.mergePolicy = Policy(.error) { conflicts, context in
            for conflict in conflicts.optimisticLocking {
                context.refresh(context.object(with: conflict.object), mergeChanges: true)
            }
            return false
        }
        let before = try pair.b.performAndWait { () throws -> Int in
            pair.b.setQueryGeneration(from: .current)
            return try pair.b.count(for: FetchRequest("Item"))
        }
        #expect(before == 1)
        try pair.aSaves(["q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "qA")
    }

    // MARK: Misuse

    @Test("A policy that saves, and one that is called outside a save, end the program")
    func misuse() async {
        await #expect(processExitsWith: .failure) {
            guard let pair = try? Siblings() else { return }
            pair.b.mergePolicy = Policy(.overwrite) { _, context in
                try context.save()
                return true
            }
            try? pair.aSaves(["p": "pA"])
            try? pair.bSaves(["p": "pB"])
        }
        await #expect(processExitsWith: .failure) {
            guard let context = try? TestStore().context() else { return }
            try? context.performAndWait { () throws in
                try ContextMergePolicy.overwrite.resolve(
                    optimisticLockingConflicts: [], in: context)
            }
        }
        await #expect(processExitsWith: .failure) {
            let named = NamedMergePolicy.register("forContexts", version: 1) { _ in 0 }
            _ = ContextMergePolicy(merge: named)
        }
    }

    @Test("An observer that saves when a policy has changed objects saves as at any time")
    func observerSaves() throws {
        let pair = try Siblings()
        let errors = Mutex<[String]>([])
        pair.b.observeObjectsDidChange { [weak b = pair.b] _ in
            do { try b?.save() } catch { errors.withLock { $0.append("\(error)") } }
        }
        pair.b.mergePolicy = Policy(.error) { conflicts, context in
            for conflict in conflicts.optimisticLocking {
                context.refresh(context.object(with: conflict.object), mergeChanges: true)
            }
            return false
        }
        try pair.aSaves(["q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
        #expect(errors.withLock { $0 } == [])
    }

    @Test("What a policy throws makes the save fail, and the changes stay")
    func throwing() throws {
        let pair = try Siblings()
        pair.b.mergePolicy = Policy(.overwrite) { _, _ in throw Refusal() }
        try pair.aSaves(["p": "pA"])
        #expect(throws: Refusal()) { try pair.bSaves(["p": "pB"]) }
        #expect(pair.inB("p") == "pB")
        #expect(try pair.stored("p") == "pA")
        // And the context saves as usual afterwards.
        pair.b.mergePolicy = .overwrite
        try pair.bSaves([:])
        #expect(try pair.stored("p") == "pB")
    }

    @Test("A policy that takes its time holds back nobody else's saves")
    func slow() throws {
        let pair = try Siblings()
        let store = pair.store
        pair.b.mergePolicy = Policy(.overwrite) { _, _ in
            // Another context saves while this one is being asked.
            try store.insert("Item", ["p": "other"])
            return true
        }
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB"])
        #expect(try pair.stored("p") == "pB")
    }

    @Test("What others save while a policy decides is told to it as another conflict")
    func overtaken() throws {
        let pair = try Siblings()
        let (store, id) = (pair.store, pair.id)
        let rounds = Mutex(0)
        let policy = Policy(.error) { conflicts, context in
            context.refresh(context.object(with: id), mergeChanges: true)
            let round = rounds.withLock {
                $0 += 1; return $0
            }
            if round < 4 { try store.update(id, "q", "q\(round)") }
            return false
        }
        pair.b.mergePolicy = policy
        try pair.aSaves(["q": "qA"])
        try pair.bSaves(["p": "pB"])
        #expect(policy.calls.count == 4)
        #expect(try pair.stored("p") == "pB")
        #expect(try pair.stored("q") == "q3")
    }

    @Test("A save gives up after so many attempts, if every one meets a new conflict")
    func endless() throws {
        let pair = try Siblings()
        let (store, id) = (pair.store, pair.id)
        let policy = Policy(.error) { _, context in
            context.refresh(context.object(with: id), mergeChanges: true)
            try store.update(id, "q", "\(UInt64.random(in: 0 ... .max))")
            return false
        }
        pair.b.mergePolicy = policy
        try pair.aSaves(["q": "qA"])
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code == .mergeConflict)
        #expect(policy.calls.count == ContextMergePolicy.attempts - 1)
    }

    @Test("Values that a policy sets are validated")
    func validated() throws {
        let pair = try Siblings()
        pair.b.mergePolicy = Policy(.overwrite) { _, context in
            context.insert("Pet", ["name": "without a keeper"])
            return true
        }
        try pair.aSaves(["p": "pA"])
        let error = try pair.error { try pair.bSaves(["p": "pB"]) }
        #expect(error.code == .validationFailed)
        #expect(try pair.stored("p") == "pA")
    }

    @Test("A policy that drops all changes leaves nothing to save")
    func rolledBack() throws {
        let pair = try Siblings()
        pair.b.mergePolicy = Policy(.error) { _, context in
            context.rollback()
            return false
        }
        try pair.aSaves(["p": "pA"])
        try pair.bSaves(["p": "pB"])
        #expect(pair.b.performAndWait { pair.b.hasChanges } == false)
        #expect(try pair.stored("p") == "pA")
    }

    @Test("Policies of Core Data are equal by what they do, others only to themselves")
    func equality() {
        #expect(ContextMergePolicy(merge: .overwrite) == .overwrite)
        #expect(ContextMergePolicy.overwrite != .rollback)
        let own = Policy(.overwrite)
        #expect(own == own)
        #expect(own != .overwrite)
        #expect(own != Policy(.overwrite))
    }
}
