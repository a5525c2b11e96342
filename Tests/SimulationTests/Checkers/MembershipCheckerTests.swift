import Merge
import Testing

@testable import Coordinator
@testable import Simulation

/// What checkers make of members that come and go.
@Suite struct MembershipCheckerTests {
    private let first = CheckerScript.actor(0)
    private let third = CheckerScript.actor(2)

    private func nodes(_ numbers: Int...) -> [NodeID] { numbers.compactMap { NodeID($0) } }

    private func item(_ name: String) -> CheckerScript.Write {
        .insert("Item", 1, ["name": .string(name)])
    }

    // MARK: Law 2

    /// Node 3 saves, gets its answer, and departs; then what follows. Nodes 1 and 2 are left.
    private func afterDeparting(
        _ left: [(ActorID, UInt64)], _ other: [(ActorID, UInt64)] = [],
        _ observations: (CheckerScript, EncodedTransaction) -> [Observation] = { _, _ in [] }
    ) throws -> String {
        var script = try CheckerScript(machines: 3)
        var checker = AcknowledgementChecker()
        let save = script.transaction(third, 1, at: 10, author: "n3.1", item("i"))
        var told = script.tell(
            &checker, script.started(0), script.started(1), script.started(2),
            script.committed(1, [(third, 1)], [save], on: 2),
            .acknowledged(
                node: 2, save: SaveRequest(operations: [], author: "n3.1"),
                result: SaveResult(
                    transaction: save.dot, timestamp: save.transaction.timestamp,
                    seen: save.transaction.seen,
                    token: script.token(1, CheckerScript.vector([(third, 1)])),
                    insertedRows: [], conflicts: [], rows: [])))
        for observation in observations(script, save) {
            told += script.tell(&checker, observation)
        }
        let final = [0: script.reading(2, left), 1: script.reading(2, other)]
        told += script.tell(&checker, .settled(final: final, isReopened: false))
        return told.joined(separator: "\n")
    }

    @Test("Law 2: what a departed node's store alone has is excused, and only so")
    func departed() throws {
        #expect(try afterDeparting([]) == "")
        // Its own store has lost it, though nothing befell its disk.
        let forgotten = try afterDeparting([]) { script, _ in
            [.ended(node: 2, how: .closed), script.started(2, 2, [])]
        }
        #expect(forgotten.contains("never lost its disk"))
        // A member has it in its store, and shows nothing of it.
        let held = try afterDeparting([]) { script, save in
            [script.committed(1, [(third, 1)], [save], isLocal: false)]
        }
        #expect(held.contains("node 1 still held it"))
        // One member has it and the other does not.
        let parted = try afterDeparting([(third, 1)]) { script, save in
            [script.committed(1, [(third, 1)], [save], isLocal: false)]
        }
        #expect(parted.contains("missing on node 2 and not on all"))
    }

    // MARK: Law 8

    /// Node 1 declares something stable that node 2 has and node 3 has not.
    private func afterDeclaring(_ members: [NodeID]?, founders: Int) throws -> String {
        var script = try CheckerScript(machines: 3, founders: founders)
        var checker = StabilityChecker()
        let save = script.transaction(first, 1, at: 10, item("i"))
        let vector = CheckerScript.vector([(first, 1)])
        return script.tell(
            &checker, script.started(0), script.started(1),
            script.committed(1, [(first, 1)], [save]),
            .durable(node: 0, vector: vector),
            script.committed(1, [(first, 1)], [save], on: 1, isLocal: false),
            .durable(node: 1, vector: vector),
            .stable(node: 0, vector: vector, members: members)
        ).joined(separator: "\n")
    }

    @Test("Law 8: all members that the declarer knows must have it, and nobody else")
    func stable() throws {
        #expect(try afterDeclaring(nil, founders: 2) == "")
        #expect(try afterDeclaring(nodes(1, 2), founders: 3) == "")
        let joined = try afterDeclaring(nodes(1, 2, 3), founders: 2)
        #expect(joined.contains("node 3 never started"))
        #expect(try afterDeclaring(nil, founders: 3).contains("node 3 never started"))
    }
}
