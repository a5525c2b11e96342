import Foundation
import Merge
import Synchronization
import Testing

@testable import Coordinator

/// A node takes another's store over as a copy, and loses nothing of its own.
@Suite struct TransferTests {
    /// The donor's monotonic clock.
    final class Clock: Sendable {
        let milliseconds = Mutex<UInt64>(0)
        @Sendable func now() -> UInt64 { milliseconds.withLock { $0 } }
        func advance(_ time: UInt64) { milliseconds.withLock { $0 += time } }
    }

    let clock = Clock()
    let donor: EngineNode
    let joiner: EngineNode

    init() throws { (donor, joiner) = try EngineNode.pair() }

    /// Reads the donor's copy part by part, as a joiner does; from where the last one ended.
    @discardableResult
    func receive(
        _ outgoing: OutgoingTransfer, into incoming: IncomingTransfer,
        at taker: EngineNode? = nil, partBytes: Int = 10_000,
        parts: Int = .max
    ) throws -> TransferOffer {
        let begun = incoming.begun()
        var number = begun?.offer.number ?? 0
        var offset = begun?.offset ?? 0
        for _ in 0..<parts {
            let part = try outgoing.read(
                number, from: offset, byteLimit: partBytes, for: (taker ?? joiner).node)
            if part.bytes.isEmpty { return part.offer }
            number = part.offer.number
            offset = try incoming.write(part.bytes, of: part.offer, at: part.offset)
        }
        return try #require(incoming.begun()?.offer)
    }

    /// Has a node take the whole of another's copy, which is not in place yet.
    @discardableResult
    func takeCopy(
        _ taker: EngineNode? = nil, of giver: EngineNode? = nil
    ) throws -> IncomingTransfer {
        let incoming = IncomingTransfer(for: (taker ?? joiner).coordinator)
        try receive(
            OutgoingTransfer((giver ?? donor).coordinator, clock: clock.now), into: incoming,
            at: taker)
        return incoming
    }

    /// Has the joiner take the donor's copy, and go on with it.
    @discardableResult
    func join(always: Bool = false) throws -> TransferInstallation {
        try takeCopy()
        joiner.close()
        let installed = try install(joinsAlways: always)
        try joiner.open()
        return installed
    }

    func check(_ incoming: IncomingTransfer, cluster: String = "test") throws {
        _ = try incoming.check(cluster: cluster, model: joiner.model)
    }

    func install(
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
    func purge(_ node: EngineNode, keeping kept: UInt64 = 0) throws {
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
        for _ in 0..<20 { try donor.insert("Tag") }
        try donor.update(shared, ["name": .string("donor's")])
        try purge(donor)
        let unsent = try joiner.insert("Tag", ["name": .string("unsent")])
        try joiner.update(shared, ["name": .string("joiner's")])
        let incoming = try takeCopy()
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
        try joiner.insert("Tag")
        try exchange(donor, joiner)
        #expect(!FileManager.default.fileExists(atPath: joiner.path + "-transfer"))
        #expect(FileManager.default.fileExists(atPath: joiner.path + "-before-transfer"))
    }

    @Test("A copy is of no use to a store that has all of it, but to one that lacks something")
    func nothingNew() throws {
        try donor.insert("Tag")
        let incoming = try takeCopy()
        try incoming.check(for: joiner.coordinator)
        try joiner.take(from: donor)
        try check(incoming)
        #expect(throws: CoordinatorError.self) { try incoming.check(for: joiner.coordinator) }
    }

    @Test("What a context has discarded is listed once, though stores go to and fro")
    func toAndFro() throws {
        let shared = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        let version = try joiner.version(shared)
        try joiner.update(shared, ["name": .string("stored")])
        let late = try joiner.change(shared, ["name": .string("late")], version: version)
        try joiner.save(late, policy: .mergeByPropertyStoreTrump)
        func discarded(_ node: EngineNode) throws -> Int {
            try node.conflicts(isOpen: nil).count { $0.kind == .save }
        }
        #expect(try discarded(joiner) == 1)
        for (taker, giver) in [(donor, joiner), (joiner, donor), (donor, joiner)] {
            try check(try takeCopy(taker, of: giver))
            taker.close()
            _ = try TransferInstaller.install(
                at: taker.path, model: taker.model, cluster: "test", node: taker.node)
            try taker.open()
            #expect(try discarded(taker) == 1)
        }
    }

    @Test("A transfer goes on where it stopped, also after a restart, and only with the same copy")
    func resumed() throws {
        for _ in 0..<50 { try donor.insert("Tag") }
        let outgoing = OutgoingTransfer(donor.coordinator, clock: clock.now)
        let first = try receive(outgoing, into: IncomingTransfer(for: joiner.coordinator), parts: 3)
        // Saved after the copy was made: not in it, and it is the same copy nevertheless.
        try donor.insert("Tag")
        let incoming = IncomingTransfer(for: joiner.coordinator)
        #expect(try #require(incoming.begun()).offset == 30_000)
        #expect(try receive(outgoing, into: incoming) == first)
        try check(incoming)
        // A donor that has started again has another copy: it begins again.
        outgoing.tend(all: true)
        _ = try receive(outgoing, into: incoming, parts: 1)
        #expect(try #require(incoming.begun()).offset == 10_000)
        #expect(throws: CoordinatorError.self) { try check(incoming) }
    }

    @Test("A flipped bit anywhere in the copy is noticed, and a part out of place is refused")
    func damaged() throws {
        for _ in 0..<20 { try donor.insert("Tag", ["name": .string("text")]) }
        let incoming = IncomingTransfer(for: joiner.coordinator)
        let offer = try receive(
            OutgoingTransfer(donor.coordinator, clock: clock.now), into: incoming)
        let whole = try #require(FileManager.default.contents(atPath: incoming.path))
        for offset in stride(from: 0, to: whole.count, by: whole.count / 40) {
            var bytes = whole
            bytes[offset] ^= 4
            try bytes.write(to: URL(fileURLWithPath: incoming.path))
            #expect(throws: CoordinatorError.self) { try check(incoming) }
        }
        try whole.write(to: URL(fileURLWithPath: incoming.path))
        try check(incoming)
        #expect(throws: CoordinatorError.self) { try check(incoming, cluster: "other") }
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
        #expect(try join().carriedCount == 0)
        #expect(try joiner.value(lost, "name") == .string("lost"))
        try joiner.insert("Tag")
        try exchange(donor, joiner)
        #expect(!FileManager.default.fileExists(atPath: joiner.path + "-before-transfer"))
    }

    @Test("What only its node knows is carried over: outcomes of saves, and saves' conflicts")
    func ownKnowledge() throws {
        let tag = try donor.insert("Tag", ["name": .string("a")])
        try joiner.take(from: donor)
        let version = try joiner.version(tag)
        try joiner.update(tag, ["name": .string("b")])
        // Fetched before that, and saved under a policy that discards it: a conflict of a save.
        try joiner.update(
            tag, ["name": .string("c")], version: version,
            policy: .mergeByPropertyStoreTrump)
        let before = try joiner.conflicts(kind: .save, isOpen: nil)
        #expect(!before.isEmpty)
        let request = SaveRequest(
            operations: [try joiner.insertion("Tag")], author: "x", saveID: "once")
        let outcome = try joiner.save(request)
        // The donor has come further than the joiner, and has forgotten the beginning.
        for _ in 0..<20 { try donor.insert("Tag") }
        try purge(donor)
        try join()
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
        let again = try joiner.save(request)
        #expect(again.transaction == outcome.transaction && again.token == outcome.token)
    }

    @Test("What a carried save discarded is listed for as long as its transaction is there")
    func carriedRecords() throws {
        let tag = try donor.insert("Tag", ["name": .string("a")])
        for _ in 0..<3 { try donor.insert("Tag") }
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        let version = try joiner.version(tag)
        // Three transactions; the second discards something, and is told of as of its own time.
        try joiner.update(tag, ["name": .string("b")])
        try joiner.save(
            try joiner.change(tag, ["name": .string("c")], version: version),
            try joiner.insertion("Tag"), policy: .mergeByPropertyStoreTrump)
        try joiner.insert("Tag")
        #expect(try join().carriedCount == 3)
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
        for _ in 0..<3 { try donor.insert("Tag") }
        try joiner.take(from: donor)
        try joiner.coordinator.vouch()
        let outcomes = try ["first", "second"].map { saveID in
            try joiner.save(SaveRequest(operations: [try joiner.insertion("Tag")], saveID: saveID))
        }
        #expect(try join().carriedCount == 2)
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
        let outcome = try lost.save(try request("lost"))
        try donor.take(from: lost)
        lost.close()
        try donor.save(try request("donor's"))
        try join()
        let again = try joiner.save(try request("lost"))
        #expect(again.isRebuilt && again.transaction == outcome.transaction)
        #expect(again.insertedRows == outcome.insertedRows)
        #expect(try joiner.coordinator.read { try $0.savedAnswer("donor's") } == nil)
        // Another's client has the right to that ID.
        let own = try joiner.save(try request("donor's"))
        #expect(own.transaction?.actor.node == joiner.node)
        #expect(try joiner.coordinator.read { try $0.count(FetchRequest("Tag")) } == 3)
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
        try donor.insert("Tag")
        let incoming = try takeCopy()
        _ = try joiner.coordinator.changeMembership([.depart(donor.node, isRetired: true)])
        let vector = try joiner.vector
        try check(incoming)
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
        try takeCopy()
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
        try donor.insert("Tag")
        let outgoing = OutgoingTransfer(donor.coordinator, clock: clock.now)
        func ask() throws -> TransferOffer {
            try outgoing.read(0, from: 0, byteLimit: 1, for: joiner.node).offer
        }
        let first = try ask()
        try donor.insert("Tag")
        #expect(try ask() == first)
        try donor.insert("Tag")
        try purge(donor)
        let second = try ask()
        #expect(second != first)
        // One that has more than the copy is given another, once nobody reads the first.
        try donor.insert("Tag")
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
        let narrow = try EngineNode(node: 3, files: files)
        defer { narrow.close() }
        try narrow.insert("Tag")
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
        for _ in 0..<5 { try donor.insert("Tag") }
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
                    try check(incoming)
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
