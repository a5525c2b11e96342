import Merge
import Testing

@testable import Coordinator

/// A copy that lacks a part of the log is joined with the store by their rows.
extension TransferTests {
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
            for _ in 0..<3 { try node.insert("Tag") }
            try purge(node)
        }
        #expect(try join(always: true).isJoined)
        #expect(try joiner.value(folder, "owner") == .null)
        #expect(try joiner.conflicts(kind: .dangling).isEmpty)
        // Nor does an edit bring it back.
        try joiner.update(folder, ["name": .string("x")])
        #expect(try joiner.conflicts(kind: .dangling).isEmpty)
        #expect(try joiner.coordinator.verify().isOK)
    }

    @Test("A dangling reference stays a conflict after a join of stores that collected its target")
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
        try donor.insert("Tag")
        try joiner.update(folder, ["name": .string("x")])
        #expect(try join(always: true).isJoined)
        #expect(try joiner.conflicts(kind: .dangling).map(\.id.row) == [folder.row])
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
        for _ in 0..<5 { try other.insert("Tag") }
        try joiner.take(from: other)
        try joiner.update(shared, ["name": .string("joiner's")])
        try joiner.update(note, ["p": .string("joiner's")])
        try joiner.update(note, [:], [.add(theirs.row, to: "tags")])
        try joiner.update(theirs, ["color": .string("red")])
        try donor.delete(gone)
        try donor.update(shared, ["name": .string("donor's")])
        try donor.update(note, ["p": .string("donor's")])
        let saved = try donor.insert("Note", ["p": .string("donor's own")])
        try purge(joiner)
        try purge(donor)

        let incoming = try takeCopy()
        try check(incoming)
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
        // Under an error policy both sides wait for a decision; the other policy's loser is told of.
        let open = try joiner.conflicts()
        #expect(open.count == 2 && open.allSatisfy { $0.sides.count == 2 })
        #expect(try joiner.conflicts(.unresolved).map(\.id.row) == [note.row])

        // The donor, which lacks what the other's log cannot tell, takes its copy, and both agree.
        try check(try takeCopy(donor, of: joiner))
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
    func severed(
        _ last: (ManagedObjectID) throws -> Void, closed: () throws -> Void = {}
    ) throws {
        let other = try EngineNode(donor.model, node: 3)
        let tag = try donor.insert("Tag", ["name": .string("a")])
        try other.insert("Tag")
        try joiner.take(from: other)
        try donor.take(from: other)
        for _ in 0..<5 { try other.insert("Tag") }
        try joiner.take(from: other)
        try joiner.take(from: donor)
        try last(tag)
        try purge(joiner)
        try takeCopy()
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
            let version = try joiner.version(tag)
            try joiner.update(tag, ["name": .string("b")])
            // The last of its saves discards a value, and has an ID.
            let last = SaveRequest(
                operations: [
                    try joiner.change(tag, ["name": .string("c")], version: version),
                    try joiner.insertion("Tag"),
                ], mergePolicy: .mergeByPropertyStoreTrump, saveID: "once")
            outcome = try joiner.save(last)
            before = try joiner.conflicts(kind: .save, isOpen: nil)
            request = last
        }
        _ = try joiner.coordinator.tendHistory(
            HistoryLimits(), HistoryKnowledge(stable: try joiner.vector))
        #expect(!before.isEmpty)
        // Who wrote the sides went with the log.
        let after = try joiner.conflicts(kind: .save, isOpen: nil)
        #expect(after.map { $0.sides.map(\.dot) } == before.map { $0.sides.map(\.dot) })
        let again = try joiner.save(try #require(request))
        #expect(again.transaction == outcome?.transaction)
    }

    @Test("Where no log is left at all, consumers are told what they have missed, and no more")
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
        // It is not lost again each time that history is tended; there is none.
        let tended = try joiner.coordinator.tendHistory(
            HistoryLimits(), HistoryKnowledge(stable: try joiner.vector))
        #expect(tended.expired.isEmpty)
        try joiner.reopen()
        try joiner.insert("Tag")
        #expect(try consumers().map(\.isExpired) == [false, true])
        #expect(try consumers().first?.behind == 1)
    }

    @Test("Of two stores without a save a consumer has read nothing, by rows as by logs")
    func consumerOfNothing() throws {
        try joiner.coordinator.setConsumer("reader")
        #expect(try join(always: true).isJoined)
        try joiner.insert("Tag")
        let consumers = try joiner.coordinator.historyStatus().consumers
        #expect(consumers.map(\.isExpired) == [false])
        #expect(consumers.map(\.behind) == [1])
    }

    @Test("A consumer whose place no log has is told so, though the log begins with the first")
    func lostPlace() throws {
        // The donor has never heard of the third node, of whose saves the joiner's log has the last.
        let other = try EngineNode(donor.model, node: 3)
        for _ in 0..<5 { try other.insert("Tag") }
        try donor.insert("Tag")
        try joiner.take(from: other)
        try joiner.coordinator.setConsumer("kept")
        try purge(joiner)
        try takeCopy()
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
        try joiner.insert("Tag")
        try purge(joiner)
        #expect(try join().isJoined)
        #expect(try joiner.conflicts().isEmpty)
        let closed = try joiner.conflicts(isOpen: nil)
        #expect(closed.count == listed && Set(closed.map(\.id.row)) == [tag.row, dead.row])
        let gone = try #require(closed.first { $0.id.row == dead.row })
        let values = try #require(gone.sides.first { !$0.isDeleted }).row
        #expect(values.contains { $0.name == "color" && $0.value == .string("blue") })
    }
}
