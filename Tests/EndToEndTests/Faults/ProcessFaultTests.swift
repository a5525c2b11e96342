import Coordinator
import Testing

extension EndToEnd {
    @Suite("With processes that die and stop")
    struct ProcessFaultTests {}
}

extension EndToEnd.ProcessFaultTests {
    @Test("nodes that are killed at random moments and come back lose nothing")
    func kills() async throws {
        try await FaultScenario.run("kills", seed: 41) { cluster, generator in
            for _ in 0..<FaultScenario.rounds(8) {
                try await Task.sleep(
                    for: .milliseconds(Int.random(in: 50...300, using: &generator)))
                let (victim, _) = cluster.pair(&generator)
                try await cluster.node(victim).kill()
                if Bool.random(using: &generator) {
                    try await Task.sleep(
                        for: .milliseconds(Int.random(in: 0...300, using: &generator)))
                }
                try await cluster.node(victim).start()
            }
        }
    }

    @Test("nodes that stand still and go on lose nothing")
    func stops() async throws {
        try await FaultScenario.run("stops", seed: 42) { cluster, generator in
            for _ in 0..<FaultScenario.rounds(5) {
                let (first, second) = cluster.pair(&generator)
                let isBoth = Int.random(in: 0..<3, using: &generator) == 0
                cluster.node(first).suspend()
                if isBoth { cluster.node(second).suspend() }
                try await Task.sleep(
                    for: .milliseconds(Int.random(in: 100...1200, using: &generator)))
                cluster.node(second).resume()
                cluster.node(first).resume()
                try await Task.sleep(
                    for: .milliseconds(Int.random(in: 50...200, using: &generator)))
            }
        }
    }
}
