import Foundation
import Merge
import Synchronization
import Testing

@testable import Coordinator

/// A node takes another's store over as a copy, and loses nothing of its own.
@Suite struct TransferTests {
    /// The donor's monotonic clock.
    private final class Clock: Sendable {
        private let milliseconds = Mutex<UInt64>(0)
        @Sendable func now() -> UInt64 { milliseconds.withLock { $0 } }
        func advance(_ time: UInt64) { milliseconds.withLock { $0 += time } }
    }

    private let clock = Clock()
    private let donor: EngineNode
    private let joiner: EngineNode

    init() throws {
        let model = try EngineModel.everything()
        donor = try EngineNode(model, node: 1)
        joiner = try EngineNode(model, node: 2)
    }

    /// Reads the donor's copy part by part, as a joiner does; from where the last one ended.
    @discardableResult
    private func receive(
        _ outgoing: OutgoingTransfer, into incoming: IncomingTransfer, partBytes: Int = 10_000,
        parts: Int = .max
    ) throws -> TransferOffer {
        let begun = incoming.begun()
        var number = begun?.offer.number ?? 0
        var offset = begun?.offset ?? 0
        for _ in 0..<parts {
            let part = try outgoing.read(
                number, from: offset, byteLimit: partBytes, for: joiner.node)
            if part.bytes.isEmpty { return part.offer }
            number = part.offer.number
            offset = try incoming.write(part.bytes, of: part.offer, at: part.offset)
        }
        return try #require(incoming.begun()?.offer)
    }

    private func install(
        _ files: any StoreFiles = SystemFiles(), joinsAlways: Bool = false
    ) throws -> TransferInstallation {
        var options = PersistentStoreCoordinator.Options()
        options.files = files
        options.joinsAlways = joinsAlways
        return try TransferInstaller.install(
            at: joiner.path, model: joiner.model, cluster: "test", node: joiner.node,
            options: options)
    }

    /// Purges the log, but for so many of the last transactions.
    private func purge(_ node: EngineNode, keeping kept: UInt64 = 0) throws {
        let token = try node.coordinator.currentToken
        let purged = Mutex(0)
        let done = DispatchSemaphore(value: 0)
        node.coordinator.maintain({ engine in
            let count = try engine.purger.purgeHistory(
                through: token.position - kept, stable: token.versionVector)
            purged.withLock { $0 = count.count }
        }) { _ in done.signal() }
        done.wait()
        #expect(purged.withLock { $0 } > 0)
    }

    @Test("A node behind the donor's history gets all of it, and others get its unsent saves")
    func behind() throws {
        let shared = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        for _ in 0..<20 { _ = try donor.insert("Tag") }
        try donor.update(shared, ["name": .string("donor's")])
        try purge(donor)
        let unsent = try joiner.insert("Tag", ["name": .string("unsent")])
        try joiner.update(shared, ["name": .string("joiner's")])
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        #expect(try incoming.check(cluster: "test", model: joiner.model) == donor.vector)
        let store = try joiner.coordinator.currentToken.store
        joiner.close()
        let installed = try install()
        #expect(installed.donor == donor.node && installed.carriedCount == 2)
        try joiner.open()
        #expect(try joiner.coordinator.currentToken.store != store)
        #expect(joiner.coordinator.recovery == .none)
        #expect(try joiner.value(unsent, "name") == .string("unsent"))
        try exchange(donor, joiner)
        #expect(try donor.value(unsent, "name") == .string("unsent"))
        #expect(try donor.conflicts().count == 1)
        // And both go on.
        try joiner.update(unsent, ["name": .string("later")])
        _ = try joiner.insert("Tag")
        try exchange(donor, joiner)
        #expect(!FileManager.default.fileExists(atPath: joiner.path + "-transfer"))
        #expect(FileManager.default.fileExists(atPath: joiner.path + "-before-transfer"))
    }

    @Test("A reference is quiet after a join where either store knows that a delete had seen it")
    func judgedReference() throws {
        let other = try EngineNode(donor.model, node: 3)
        let owner = try other.insert("Person")
        try joiner.take(from: other)
        try joiner.coordinator.vouch()
        let folder = try other.insert("Folder", ["owner": .reference(owner.row)])
        try donor.take(from: other)
        _ = try joiner.delete(owner)
        try joiner.take(from: other)
        _ = try donor.delete(owner)
        #expect(try joiner.conflicts(kind: .dangling).map(\.id.row) == [folder.row])
        #expect(try donor.conflicts(kind: .dangling).isEmpty)
        for node in [donor, joiner] {
            for _ in 0..<3 { _ = try node.insert("Tag") }
            try purge(node)
        }
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install(joinsAlways: true).isJoined)
        try joiner.open()
        #expect(try joiner.value(folder, "owner") == .null)
        #expect(try joiner.conflicts(kind: .dangling).isEmpty)
        // Nor does an edit bring it back.
        try joiner.update(folder, ["name": .string("x")])
        #expect(try joiner.conflicts(kind: .dangling).isEmpty)
        #expect(try joiner.coordinator.verify().isOK)
    }

    @Test(
        "A reference that is a conflict stays one after a join of stores that have collected its target"
    )
    func listedReference() throws {
        let other = try EngineNode(donor.model, node: 3)
        let owner = try other.insert("Person")
        try donor.take(from: other)
        let folder = try other.insert("Folder", ["owner": .reference(owner.row)])
        _ = try donor.delete(owner)
        try donor.take(from: other)
        try joiner.take(from: other)
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        for node in [donor, joiner] {
            let token = try node.coordinator.currentToken
            _ = try node.coordinator.collect(stable: token.versionVector)
            #expect(try node.conflicts(kind: .dangling).map(\.id.row) == [folder.row])
        }
        _ = try donor.insert("Tag")
        try joiner.update(folder, ["name": .string("x")])
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install(joinsAlways: true).isJoined)
        try joiner.open()
        #expect(try joiner.conflicts(kind: .dangling).map(\.id.row) == [folder.row])
    }

    @Test("A copy is of no use to a store that has all of it, but to one that lacks something")
    func nothingNew() throws {
        _ = try donor.insert("Tag")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        try incoming.check(for: joiner.coordinator)
        try joiner.take(from: donor)
        _ = try incoming.check(cluster: "test", model: joiner.model)
        #expect(throws: CoordinatorError.self) { try incoming.check(for: joiner.coordinator) }
    }

    @Test("What a context has discarded is listed once, though stores go to and fro")
    func toAndFro() throws {
        let shared = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        let version = try #require(try joiner.row(shared)).version
        try joiner.update(shared, ["name": .string("stored")])
        let late = try joiner.change(shared, ["name": .string("late")], version: version)
        try joiner.save(late, policy: .mergeByPropertyStoreTrump)
        func discarded(_ node: EngineNode) throws -> Int {
            try node.conflicts(isOpen: nil).count { $0.kind == .save }
        }
        #expect(try discarded(joiner) == 1)
        for (taker, giver) in [(donor, joiner), (joiner, donor), (donor, joiner)] {
            let incoming = IncomingTransfer(for: taker.coordinator)
            try receive(OutgoingTransfer(giver.coordinator, clock: clock.now), into: incoming)
            _ = try incoming.check(cluster: "test", model: taker.model)
            taker.close()
            _ = try TransferInstaller.install(
                at: taker.path, model: taker.model, cluster: "test", node: taker.node)
            try taker.open()
            #expect(try discarded(taker) == 1)
        }
    }

    @Test("A transfer goes on where it stopped, also after a restart, and only with the same copy")
    func resumed() throws {
        for _ in 0..<50 { _ = try donor.insert("Tag") }
        let outgoing = OutgoingTransfer(donor.coordinator, clock: clock.now)
        let first = try receive(outgoing, into: IncomingTransfer(for: joiner.coordinator), parts: 3)
        // Saved after the copy was made: not in it, and it is the same copy nevertheless.
        _ = try donor.insert("Tag")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        #expect(try #require(incoming.begun()).offset == 30_000)
        #expect(try receive(outgoing, into: incoming) == first)
        _ = try incoming.check(cluster: "test", model: joiner.model)
        // A donor that has started again has another copy: the transfer starts over.
        outgoing.tend(all: true)
        _ = try receive(outgoing, into: incoming, parts: 1)
        #expect(try #require(incoming.begun()).offset == 10_000)
        #expect(throws: CoordinatorError.self) {
            try incoming.check(cluster: "test", model: joiner.model)
        }
    }

    @Test("A flipped bit anywhere in the copy is noticed, and a part out of place is refused")
    func damaged() throws {
        for _ in 0..<20 { _ = try donor.insert("Tag", ["name": .string("text")]) }
        let incoming = IncomingTransfer(for: joiner.coordinator)
        let offer = try receive(
            OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        let whole = try #require(FileManager.default.contents(atPath: incoming.path))
        for offset in stride(from: 0, to: whole.count, by: whole.count / 40) {
            var bytes = whole
            bytes[offset] ^= 4
            try bytes.write(to: URL(fileURLWithPath: incoming.path))
            #expect(throws: CoordinatorError.self) {
                try incoming.check(cluster: "test", model: joiner.model)
            }
        }
        try whole.write(to: URL(fileURLWithPath: incoming.path))
        _ = try incoming.check(cluster: "test", model: joiner.model)
        #expect(throws: CoordinatorError.self) {
            try incoming.check(cluster: "other", model: joiner.model)
        }
        #expect(throws: CoordinatorError.self) {
            _ = try incoming.write([1], of: offer, at: offer.total + 5)
        }
    }

    @Test("A node that was copied in an earlier life gets what it had there and lost, once")
    func madeAnew() throws {
        let lost = try joiner.insert("Tag", ["name": .string("lost")])
        try donor.take(from: joiner)
        joiner.close()
        for suffix in ["", "-wal", "-shm", "-incarnation", "-lock"] {
            try? FileManager.default.removeItem(atPath: joiner.path + suffix)
        }
        try joiner.open()
        #expect(try joiner.row(lost) == nil)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install().carriedCount == 0)
        try joiner.open()
        #expect(try joiner.value(lost, "name") == .string("lost"))
        _ = try joiner.insert("Tag")
        try exchange(donor, joiner)
        #expect(!FileManager.default.fileExists(atPath: joiner.path + "-before-transfer"))
    }

    @Test("What only its node knows is carried over: outcomes of saves, and saves' conflicts")
    func ownKnowledge() throws {
        let tag = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        let version = try #require(try joiner.row(tag)?.version)
        try joiner.update(tag, ["name": .string("b")])
        // Fetched before that, and saved under a policy that discards it: a conflict of a save.
        try joiner.save(
            try joiner.change(tag, ["name": .string("c")], version: version),
            policy: .mergeByPropertyStoreTrump)
        let before = try joiner.conflicts(kind: .save, isOpen: nil)
        #expect(!before.isEmpty)
        let request = SaveRequest(
            operations: [try joiner.insertion("Tag")], author: "x", saveID: "once")
        let outcome = try joiner.coordinator.save(request)
        // The donor has come further than the joiner, and has forgotten the beginning.
        for _ in 0..<20 { _ = try donor.insert("Tag") }
        try purge(donor)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        _ = try install()
        try joiner.open()
        // What went of the donor's log takes nothing along of what the joiner knows.
        _ = try joiner.coordinator.tendHistory(
            HistoryLimits(), HistoryKnowledge(stable: try joiner.vector))
        let after = try joiner.conflicts(kind: .save, isOpen: nil)
        #expect(after.map(\.sides) == before.map(\.sides))
        let reached = try donor.coordinator.currentToken.generation
        for conflict in after {
            #expect(try #require(conflict.id.closedAt) > reached && conflict.openedAt > reached)
            #expect(try joiner.coordinator.read { try $0.conflict(conflict.id) } == conflict)
        }
        let again = try joiner.coordinator.save(request)
        #expect(again.transaction == outcome.transaction && again.token == outcome.token)
    }

    @Test("What a carried save discarded is listed for as long as its transaction is there")
    func carriedRecords() throws {
        let tag = try donor.insert("Tag", ["name": .string("a")])
        for _ in 0..<3 { _ = try donor.insert("Tag") }
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        let version = try #require(try joiner.row(tag)?.version)
        // Three transactions; the second discards something, and the journal has it at its own
        // time.
        try joiner.update(tag, ["name": .string("b")])
        try joiner.save(
            try joiner.change(tag, ["name": .string("c")], version: version),
            try joiner.insertion("Tag"), policy: .mergeByPropertyStoreTrump)
        _ = try joiner.insert("Tag")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install().carriedCount == 3)
        try joiner.open()
        func records() throws -> Int { try joiner.conflicts(kind: .save, isOpen: nil).count }
        for kept in [3, 2] as [UInt64] {
            try purge(joiner, keeping: kept)
            #expect(try records() == 1, "of the last \(kept)")
        }
        try purge(joiner, keeping: 1)
        #expect(try records() == 0)
    }

    @Test("An answer goes with its transaction, which has a new place behind the log of a copy")
    func carriedAnswers() throws {
        for _ in 0..<3 { _ = try donor.insert("Tag") }
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        let outcomes = try ["first", "second"].map { saveID in
            try joiner.coordinator.save(
                SaveRequest(operations: [try joiner.insertion("Tag")], saveID: saveID))
        }
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install().carriedCount == 2)
        try joiner.open()
        func known() throws -> [Dot?] {
            try ["first", "second"].map { saveID in
                try joiner.coordinator.read { try $0.savedAnswer(saveID)?.transaction }
            }
        }
        try purge(joiner, keeping: 2)
        #expect(try known() == outcomes.map(\.transaction))
        try purge(joiner, keeping: 1)
        #expect(try known() == [nil, outcomes[1].transaction])
    }

    @Test("With a copy a lost store gets its own saves back by their IDs, and none of the donor's")
    func answersOfLostStore() throws {
        func request(_ id: String) throws -> SaveRequest {
            SaveRequest(operations: [try joiner.insertion("Tag")], saveID: id)
        }
        let lost = try EngineNode(joiner.model, node: 2)
        let outcome = try lost.coordinator.save(try request("lost"))
        try donor.take(from: lost)
        lost.close()
        _ = try donor.coordinator.save(try request("donor's"))
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        _ = try install()
        try joiner.open()
        let again = try joiner.coordinator.save(try request("lost"))
        #expect(again.isRebuilt && again.transaction == outcome.transaction)
        #expect(again.insertedRows == outcome.insertedRows)
        #expect(try joiner.coordinator.read { try $0.savedAnswer("donor's") } == nil)
        // Another's client has the right to that ID.
        let own = try joiner.coordinator.save(try request("donor's"))
        #expect(own.transaction?.actor.node == joiner.node)
        #expect(try joiner.coordinator.read { try $0.count(FetchRequest("Tag")) } == 3)
    }

    @Test("Two that have each forgotten what the other lacks are joined, and lose nothing")
    func eachForgot() throws {
        // As it comes when nodes are apart for longer than history is kept, and those who had both
        // are gone.
        let shared = try donor.insert("Tag", ["name": .string("a")])
        let note = try donor.insert("Note", ["p": .string("shared")])
        let gone = try donor.insert("Tag")
        try joiner.take(from: donor)
        let other = try EngineNode(donor.model, node: 3)
        let theirs = try other.insert("Tag", ["name": .string("third's")])
        for _ in 0..<5 { _ = try other.insert("Tag") }
        try joiner.take(from: other)
        try joiner.update(shared, ["name": .string("joiner's")])
        try joiner.update(note, ["p": .string("joiner's")])
        try joiner.save(
            try joiner.change(
                note, [:],
                [RelationshipOperation(name: "tags", kind: .add, members: [theirs.row])]))
        try joiner.update(theirs, ["color": .string("red")])
        try donor.delete(gone)
        try donor.update(shared, ["name": .string("donor's")])
        try donor.update(note, ["p": .string("donor's")])
        let saved = try donor.insert("Note", ["p": .string("donor's own")])
        try purge(joiner)
        try purge(donor)

        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        _ = try incoming.check(cluster: "test", model: joiner.model)
        let both = try joiner.vector.joined(donor.vector)
        joiner.close()
        #expect(try install().carriedCount == 10)
        try joiner.open()
        #expect(try joiner.vector == both)
        #expect(try joiner.coordinator.verify().isOK)
        #expect(try joiner.value(theirs, "color") == .string("red"))
        #expect(try joiner.value(saved, "p") == .string("donor's own"))
        #expect(try joiner.row(gone) == nil)
        #expect(try joiner.members(note, "tags") == [theirs.row])
        // Under an error policy both sides wait for a decision; the other policy's loser is
        // journalled.
        let open = try joiner.conflicts()
        #expect(open.count == 2 && open.allSatisfy { $0.sides.count == 2 })
        #expect(try joiner.conflicts(.unresolved).map(\.id.row) == [note.row])

        // The donor, which lacks what the other's log cannot tell, takes its copy, and both agree.
        let back = IncomingTransfer(for: donor.coordinator)
        let outgoing = OutgoingTransfer(joiner.coordinator, clock: clock.now)
        let offer = try outgoing.read(0, from: 0, byteLimit: .max, for: donor.node)
        _ = try back.write(offer.bytes, of: offer.offer, at: 0)
        _ = try back.check(cluster: "test", model: donor.model)
        donor.close()
        _ = try TransferInstaller.install(
            at: donor.path, model: donor.model, cluster: "test", node: donor.node)
        try donor.open()
        try exchange(donor, joiner)
        #expect(try donor.vector == both)
        #expect(try ClusterExpectations.unresolved(donor) == ClusterExpectations.unresolved(joiner))
    }

    /// The donor has the first of a third node's saves, the joiner all of them and only the last of its
    /// own log: what they are joined to has nothing of the copy's log.
    private func severed(
        _ last: (ManagedObjectID) throws -> Void, closed: () throws -> Void = {}
    ) throws {
        let other = try EngineNode(donor.model, node: 3)
        let tag = try donor.insert("Tag", ["name": .string("a")])
        _ = try other.insert("Tag")
        try joiner.take(from: other)
        try donor.take(from: other)
        for _ in 0..<5 { _ = try other.insert("Tag") }
        try joiner.take(from: other)
        try joiner.take(from: donor)
        try last(tag)
        try purge(joiner)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        try closed()
        #expect(try install().isJoined)
        try joiner.open()
        #expect(try joiner.coordinator.verify().isOK)
    }

    @Test("Where nothing is left of the copy's log, what only its node knows is kept all the same")
    func severedAnswers() throws {
        var request: SaveRequest?
        var outcome: SaveResult?
        var before: [Conflict] = []
        try severed { tag in
            let version = try #require(try joiner.row(tag)?.version)
            try joiner.update(tag, ["name": .string("b")])
            // The last of its saves discards a value, and has an ID.
            let last = SaveRequest(
                operations: [
                    try joiner.change(tag, ["name": .string("c")], version: version),
                    try joiner.insertion("Tag"),
                ], mergePolicy: .mergeByPropertyStoreTrump, saveID: "once")
            outcome = try joiner.coordinator.save(last)
            before = try joiner.conflicts(kind: .save, isOpen: nil)
            request = last
        }
        _ = try joiner.coordinator.tendHistory(
            HistoryLimits(), HistoryKnowledge(stable: try joiner.vector))
        #expect(!before.isEmpty)
        // Who wrote the sides went with the log.
        let after = try joiner.conflicts(kind: .save, isOpen: nil)
        #expect(after.map { $0.sides.map(\.dot) } == before.map { $0.sides.map(\.dot) })
        let again = try joiner.coordinator.save(try #require(request))
        #expect(again.transaction == outcome?.transaction)
    }

    @Test("If no log is left at all, consumers hear what they have missed, and nothing else")
    func severedConsumers() throws {
        try severed({ _ in try joiner.coordinator.setConsumer("all") }) {
            // One that was passed over long ago: it has read nothing.
            let none = QueryGenerationToken(
                store: 1, generation: 1, position: 0, versionVector: VersionVector())
            try joiner.tamper(
                "INSERT INTO _consumer (name, position, token, told) "
                    + "VALUES ('none', 0, '\(none.text)', 0)")
        }
        func consumers() throws -> [HistoryConsumer] {
            try joiner.coordinator.historyStatus().consumers
        }
        #expect(try consumers().map(\.name) == ["all", "none"])
        #expect(try consumers().map(\.isExpired) == [false, true])
        #expect(try consumers().map(\.behind).first == 0)
        // It is not lost again each time that history is tended. There is none.
        let tended = try joiner.coordinator.tendHistory(
            HistoryLimits(), HistoryKnowledge(stable: try joiner.vector))
        #expect(tended.expired.isEmpty)
        joiner.close()
        try joiner.open()
        _ = try joiner.insert("Tag")
        #expect(try consumers().map(\.isExpired) == [false, true])
        #expect(try consumers().first?.behind == 1)
    }

    @Test("Of two stores without a save a consumer has read nothing, by rows as by logs")
    func consumerOfNothing() throws {
        try joiner.coordinator.setConsumer("reader")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install(joinsAlways: true).isJoined)
        try joiner.open()
        _ = try joiner.insert("Tag")
        let consumers = try joiner.coordinator.historyStatus().consumers
        #expect(consumers.map(\.isExpired) == [false])
        #expect(consumers.map(\.behind) == [1])
    }

    @Test("A consumer whose place no log has gets an error, though the log begins with the first")
    func lostPlace() throws {
        // The donor has never heard of the third node, of whose saves the joiner's log has the last.
        let other = try EngineNode(donor.model, node: 3)
        for _ in 0..<5 { _ = try other.insert("Tag") }
        _ = try donor.insert("Tag")
        try joiner.take(from: other)
        try joiner.coordinator.setConsumer("kept")
        try purge(joiner)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        let none = QueryGenerationToken(
            store: 1, generation: 1, position: 0, versionVector: VersionVector())
        try joiner.tamper(
            "INSERT INTO _consumer (name, position, token, told) "
                + "VALUES ('lost', 0, '\(none.text)', 0)")
        #expect(try install().isJoined)
        try joiner.open()
        #expect(try joiner.look("SELECT min(position) FROM _transaction") == 1)
        let consumers = try joiner.coordinator.historyStatus().consumers
        #expect(consumers.map(\.name) == ["kept", "lost"])
        #expect(consumers.map(\.isExpired) == [false, true])
        // Who can never read on holds nothing back.
        try joiner.coordinator.removeConsumer("kept")
        var limits = HistoryLimits()
        limits.keepMilliseconds = 0
        let tended = try joiner.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: try joiner.vector))
        #expect(tended.hold == nil && tended.expired.isEmpty && tended.lost == ["lost"])
        let again = try joiner.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: try joiner.vector))
        #expect(again.lost.isEmpty)
        let after = try joiner.coordinator.historyStatus().consumers
        #expect(after.map(\.isExpired) == [true])
    }

    @Test(
        "A conflict that ended on one side is listed once, and with the whole row where that went")
    func joinedEntries() throws {
        let tag = try donor.insert("Tag", ["name": .string("a"), "color": .string("red")])
        let dead = try donor.insert("Tag", ["name": .string("x"), "color": .string("blue")])
        try joiner.take(from: donor)
        try joiner.update(tag, ["name": .string("joiner's")])
        try donor.update(tag, ["name": .string("donor's")])
        try joiner.delete(dead)
        try donor.update(dead, ["name": .string("y")])
        try exchange(donor, joiner)
        // The joiner has collected, and ended the other conflict by a save that it alone has.
        _ = try joiner.coordinator.collect(stable: try donor.vector)
        let listed = try joiner.conflicts(isOpen: nil).count
        try joiner.update(tag, ["name": .string("decided")])
        _ = try joiner.insert("Tag")
        try purge(joiner)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        #expect(try install().isJoined)
        try joiner.open()
        #expect(try joiner.conflicts().isEmpty)
        let closed = try joiner.conflicts(isOpen: nil)
        #expect(closed.count == listed && Set(closed.map(\.id.row)) == [tag.row, dead.row])
        let gone = try #require(closed.first { $0.id.row == dead.row })
        let values = try #require(gone.sides.first { !$0.isDeleted }).row
        #expect(values.contains { $0.name == "color" && $0.value == .string("blue") })
    }

    @Test("A copy of a node that has been retired meanwhile is refused")
    func donorDeparted() throws {
        let addresses = [1, 2].map {
            MemberAddress(publish: "tcp://n\($0):1", exchange: "tcp://n\($0):2")
        }
        _ = try joiner.coordinator.changeMembership([
            .join(donor.node, addresses[0]), .join(joiner.node, addresses[1]),
        ])
        try donor.take(from: joiner)
        _ = try donor.insert("Tag")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        _ = try joiner.coordinator.changeMembership([.depart(donor.node, isRetired: true)])
        let vector = try joiner.vector
        _ = try incoming.check(cluster: "test", model: joiner.model)
        joiner.close()
        #expect(try joiner.code { _ = try install() } == .memberDeparted)
        try joiner.open()
        #expect(try joiner.vector == vector)
    }

    @Test("What the copy cannot take of this store's saves is named, and the store stays as it was")
    func cannotTake() throws {
        let tag = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        try donor.delete(tag)
        // As if it were stable: the joiner's update is of a row that is gone.
        _ = try donor.coordinator.collect(stable: try donor.vector)
        let saved = try joiner.update(tag, ["name": .string("b")])
        let incoming = IncomingTransfer(for: joiner.coordinator)
        try receive(OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        joiner.close()
        let refusal = try #require(throws: CoordinatorError.self) { _ = try install() }
        #expect(refusal.code == .limitExceeded)
        let dot = try #require(saved.transaction)
        #expect(refusal.message.contains("\(dot)"), "\(refusal.message)")
        try joiner.open()
        #expect(try joiner.value(tag, "name") == .string("b"))
    }

    @Test("A taker gets the copy there is, unless the log no longer goes on from it")
    func shared() throws {
        _ = try donor.insert("Tag")
        let outgoing = OutgoingTransfer(donor.coordinator, clock: clock.now)
        func ask() throws -> TransferOffer {
            try outgoing.read(0, from: 0, byteLimit: 1, for: joiner.node).offer
        }
        let first = try ask()
        _ = try donor.insert("Tag")
        #expect(try ask() == first)
        _ = try donor.insert("Tag")
        try purge(donor)
        let second = try ask()
        #expect(second != first)
        // One that has more than the copy is given another, once nobody reads the first.
        _ = try donor.insert("Tag")
        let vector = try donor.vector
        #expect(
            throws: CoordinatorError.self, "Two copies are being read."
        ) {
            try outgoing.read(0, from: 0, byteLimit: 1, for: joiner.node, covering: vector)
        }
        #expect(
            try outgoing.read(
                first.number, from: 0, byteLimit: 1, for: joiner.node, covering: vector
            ).offer == first)
        clock.advance(OutgoingTransfer.busyMilliseconds)
        let third = try outgoing.read(
            0, from: 0, byteLimit: 1, for: joiner.node, covering: vector
        ).offer
        #expect(third != second)
        outgoing.tend()
        let kept = try ask()
        clock.advance(OutgoingTransfer.keptMilliseconds - 1)
        outgoing.tend()
        #expect(try ask() == kept)
        clock.advance(OutgoingTransfer.keptMilliseconds)
        outgoing.tend()
        #expect(!FileManager.default.fileExists(atPath: donor.path + "-outgoing"))
        #expect(!FileManager.default.fileExists(atPath: donor.path + "-outgoing-2"))
        #expect(try ask() != kept)
    }

    @Test("A disk without room for a copy is not filled: neither the donor's nor the taker's")
    func room() throws {
        let little = FailingFiles.reservedBytes + 4_096
        let files = FailingFiles(room: little)
        let narrow = try EngineNode(try EngineModel.everything(), node: 3, files: files)
        defer { narrow.close() }
        _ = try narrow.insert("Tag")
        let outgoing = OutgoingTransfer(narrow.coordinator, clock: clock.now)
        func ask() throws { _ = try outgoing.read(0, from: 0, byteLimit: 1, for: joiner.node) }
        #expect(try narrow.code(ask) == .diskFull)
        #expect(!FileManager.default.fileExists(atPath: narrow.path + "-outgoing"))
        // Where there is room again, it is looked for after a minute.
        files.room.withLock { $0 = .max }
        #expect(try narrow.code(ask) == .diskFull)
        clock.advance(OutgoingTransfer.busyMilliseconds)
        try ask()
        let incoming = IncomingTransfer(for: narrow.coordinator)
        files.room.withLock { $0 = little }
        let offer = TransferOffer(
            donor: donor.node, number: 1, total: 1 << 60, digest: [UInt8](repeating: 0, count: 16))
        #expect(try narrow.code { _ = try incoming.write([1], of: offer, at: 0) } == .diskFull)
        #expect(incoming.begun() == nil)
    }

    // MARK: Crashes

    @Test("A failure at any step leaves the store that was, or the new one; both have its saves")
    func crashes() throws {
        for _ in 0..<5 { _ = try donor.insert("Tag") }
        let incoming = IncomingTransfer(for: joiner.coordinator)
        var steps = 0
        for isDone in [false, true] {
            for step in 1... {
                let unsent = try joiner.insert("Tag", ["name": .string("\(isDone) \(step)")])
                let donated = try donor.insert("Tag")
                let outgoing = OutgoingTransfer(donor.coordinator, clock: clock.now)
                outgoing.tend(all: true)
                try incoming.discard()
                try receive(outgoing, into: incoming)
                joiner.close()
                let files = FailingFiles(failing: step, isDone: isDone)
                let installed = try? install(files)
                // What a restart would go on with has the bytes that the donor sent.
                if let begun = incoming.begun(), begun.offset == begun.offer.total {
                    _ = try incoming.check(cluster: "test", model: joiner.model)
                }
                try joiner.open()
                #expect(try joiner.value(unsent, "name") == .string("\(isDone) \(step)"))
                let isNew = try joiner.row(donated) != nil
                // It is reported exactly if the copy is in place.
                if !isDone { #expect(isNew == (installed != nil)) }
                if isNew { joiner.coordinator.setSaving(allowed: true) }
                if files.left.withLock({ $0 }) > 0 {
                    #expect(installed != nil)
                    steps += step
                    break
                }
            }
        }
        #expect(steps > 20)
        // Whatever was left, it is a store that goes on.
        try incoming.discard()
        try exchange(donor, joiner)
    }
}
