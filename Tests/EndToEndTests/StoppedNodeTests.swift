import Coordinator
import Testing

extension EndToEnd {
    @Suite("While a node is stopped")
    struct StoppedNodeTests {}
}

extension EndToEnd.StoppedNodeTests {
    /// How much more memory a node may hold because of a peer that takes nothing, in bytes.
    private static let allowance = 200 << 20

    @Test("the others go on within bounded memory, and it catches up when it goes on")
    func othersGoOn() async throws {
        try await TestCluster.with { cluster in
            try await cluster.node(1).save(.insert("Latest", ["name": "first"]))
            try await cluster.waitForConvergence()
            let text = JSONValue.string(String(repeating: "x", count: 4096))
            cluster.node(3).suspend()
            let before = [1, 2].map { cluster.node($0).residentBytes }
            let loads = try [1, 2].map { number in
                try Load(on: cluster.node(number), prefix: "n\(number)") { saveID, _ in
                    (0..<2).map {
                        .insert("Latest", ["name": "\(saveID)-\($0)", "a": text])
                    }
                }
            }
            var greatest = before
            for _ in 0..<40 {
                try await Task.sleep(for: .milliseconds(500))
                for index in 0...1 {
                    greatest[index] = max(greatest[index], cluster.node(index + 1).residentBytes)
                }
            }
            var saved = 0
            for (index, load) in loads.enumerated() {
                let outcome = await load.stop()
                #expect(outcome.refusals == [])
                #expect(outcome.unanswered == [])
                #expect(!outcome.acknowledged.isEmpty)
                #expect(greatest[index] - before[index] < Self.allowance)
                saved += outcome.acknowledged.count
            }
            try await cluster.waitForConvergence(among: [1, 2])
            cluster.node(3).resume()
            try await cluster.waitForConvergence()
            #expect(try await cluster.node(3).count("Latest") == 1 + 2 * saved)
            try await expectVerified(cluster)
        }
    }
}
