import Logging
import Merge
import Testing

@testable import Node

@Suite("What the log says of handshakes")
struct MeshWatchTests {
    private static func report(
        _ handshake: MeshKeyReport.Handshake, keys: CurveKeys?
    ) throws -> MeshKeyReport {
        var report = MeshKeyReport()
        report.publicKey = keys?.publicKey
        report.peers = [.init(node: try #require(NodeID(2)), handshake: handshake, publicKey: nil)]
        return report
    }

    @Test("A peer that refuses each new connection is named once a minute, not once a connection")
    func refusedAgainAndAgain() throws {
        let keys = try CurveKeys.generate()
        let lines = LogLines()
        var watch = MeshWatch()
        for second in 0..<UInt64(59) {
            for handshake in [MeshKeyReport.Handshake.none, .refusedThere] {
                try watch.note(
                    Self.report(handshake, keys: keys), now: second * 1_000, logger: lines.logger)
            }
        }
        #expect(lines.count == 1)
        try watch.note(Self.report(.refusedThere, keys: keys), now: 60_000, logger: lines.logger)
        #expect(lines.count == 2)
        #expect(lines.all.allSatisfy { $0.contains("A peer does not list this node's key") })
        try watch.note(Self.report(.succeeded, keys: keys), now: 60_001, logger: lines.logger)
        try watch.note(Self.report(.refusedThere, keys: keys), now: 60_002, logger: lines.logger)
        try watch.note(Self.report(.succeeded, keys: keys), now: 60_003, logger: lines.logger)
        #expect(lines.all.count { $0.contains("A peer has proven its key") } == 2)
    }

    @Test("In a mesh without keys nobody is said to have proven one, or not to")
    func withoutKeys() throws {
        let lines = LogLines()
        var watch = MeshWatch()
        try watch.note(Self.report(.succeeded, keys: nil), now: 0, logger: lines.logger)
        #expect(lines.count == 0)
        try watch.note(Self.report(.failed, keys: nil), now: 1, logger: lines.logger)
        #expect(lines.count == 1 && !lines.all[0].contains("proven"))
    }

    @Test("A peer to which no sockets can be made is named once a minute, however often it changes")
    func unmade() throws {
        let lines = LogLines()
        var watch = MeshWatch()
        for second in 0..<UInt64(61) {
            var report = try Self.report(.none, keys: nil)
            report.peers[0].failure = second % 2 == 0 ? "no more sockets" : nil
            watch.note(report, now: second * 1_000, logger: lines.logger)
            #expect(lines.count == (second < 60 ? 1 : 2))
        }
        #expect(lines.all.allSatisfy { $0.contains("no more sockets") && $0.contains("2") })
    }
}
