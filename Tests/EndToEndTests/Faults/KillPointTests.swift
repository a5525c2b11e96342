import Foundation
import Testing

extension EndToEnd {
    @Suite("Killed at a system call")
    struct KillPointTests {
        /// How many points: a sample, or as many as TRIBUTARY_KILL_POINTS says.
        static let count =
            ProcessInfo.processInfo.environment["TRIBUTARY_KILL_POINTS"].flatMap { Int($0) } ?? 16
    }
}

extension EndToEnd.KillPointTests {
    @Test("Enough points come to every place of every kind")
    func places() {
        let points = Set(KillPoint.points(2_000))
        #expect(points.count == 177)
        for (phase, file, calls, last) in [
            (KillPoint.Phase.saving, KillPoint.File.log, "fsync,fdatasync", 6),
            (.saving, .log, "pwrite64", 70), (.opening, .record, "rename", 1),
        ] {
            let found = points.filter { $0.phase == phase && $0.file == file && $0.calls == calls }
            #expect(found.map(\.occurrence).sorted() == Array(1...last))
        }
    }

    @Test(
        "a node killed at any write, sync, truncation or rename loses nothing and uses no dot twice",
        MachineAbilities.needed(.tracing, cases: EndToEnd.KillPointTests.count))
    func losesNothing() async throws {
        let strace = try #require(MachineAbilities.program("strace"))
        try await TestCluster.with(nodes: 2) { cluster in
            let run = try await KillPointRun(cluster, strace: strace)
            // A process does not come to every point, so there are more than are wanted.
            for point in KillPoint.points(Self.count * 2) where run.reachedCount < Self.count {
                try await run.visit(point)
            }
            try await run.checkWhole()
            #expect(run.lostCount == 0 && run.reusedCount == 0)
            #expect(run.reachedCount == Self.count)
            let phases = KillPoint.Phase.allCases.map { phase in
                let count = run.reached.filter { $0.key.phase == phase }.values.reduce(0, +)
                return "\(phase.rawValue) \(count)"
            }
            MachineAbilities.report(
                """
                \(run.reachedCount) kills at \(run.reached.count) points (\(phases.joined(separator: ", ")); not reached: \
                \(run.missedCount)), 0 skipped, \(run.lostCount) acknowledged saves lost, \
                \(run.reusedCount) dots reused
                """)
        }
    }
}
