import Coordinator
import Foundation
import Testing

extension EndToEnd {
    @Suite("Records and answers over the command line")
    struct LargeRecordTests {}
}

extension EndToEnd.LargeRecordTests {
    private static let model = """
        {"entities": [
          {"name": "Party", "attributes": [{"name": "name", "type": "string"}]},
          {"name": "Firm", "parent": "Party", "attributes": [{"name": "branch", "type": "string"}]}]}
        """

    @Test("Of a file's records only the one that is too large is refused, and told as not saved")
    func tooLargeRecord() async throws {
        try await TestCluster.with(nodes: 1, starting: [], model: Self.model) { cluster in
            let node = cluster.node(1)
            try await node.start(environment: ["TRIBUTARY_HTTP_MAX_BODY_BYTES": "65536"])
            let file = cluster.folder.appendingPathComponent("parties.jsonl")
            let long = String(repeating: "x", count: 100_000)
            let lines = ["one", long, "two"].map { "{\"name\": \"\($0)\"}\n" }
            try Data(lines.joined().utf8).write(to: file)
            let run = try await TestProcess.run(
                ["import", file.path, "--entity", "Party", "--node", node.url], in: cluster.folder)
            #expect(run.code == 1)
            #expect(run.output.contains("3 records read: 2 inserted, 0 updated"), "\(run.output)")
            #expect(run.errors.contains("line 2: The body has more than 65536 bytes"))
            #expect(!run.errors.contains("unknown"), "\(run.errors)")
            let names = try await node.objects("Party").compactMap { $0.value("name")?.string }
            #expect(names.sorted() == ["one", "two"])
        }
    }

    @Test("CSV of an entity with heirs keeps each object's entity and the heirs' values")
    func heirs() async throws {
        try await TestCluster.with(nodes: 1, model: Self.model) { cluster in
            let node = cluster.node(1)
            try await node.save([
                .insert("Party", ["name": "Ada"]),
                .insert("Firm", ["name": "Steel", "branch": "iron"]),
            ])
            let run = try await TestProcess.run(
                ["export", "Party", "--format", "csv", "--sort", "name", "--node", node.url],
                in: cluster.folder)
            #expect(run.code == 0, "\(run.errors)")
            let rows = run.output.split(whereSeparator: \.isNewline).map {
                $0.split(separator: ",", omittingEmptySubsequences: false).dropFirst()
                    .joined(separator: ",")
            }
            #expect(rows == ["entity,branch,name", "Party,,Ada", "Firm,iron,Steel"])
        }
    }

    @Test("A fetch that is too large for one answer streams by itself")
    func streams() async throws {
        try await TestCluster.with(nodes: 1, model: Self.model) { cluster in
            let node = cluster.node(1)
            // An answer has 64 MiB at the most.
            let long = String(repeating: "x", count: 14 << 20)
            for number in 0..<5 {
                try await node.save(.insert("Party", ["name": "\(number) \(long)"]))
            }
            let run = try await TestProcess.run(
                ["fetch", "Party", "--sort", "name", "--json", "--node", node.url],
                in: cluster.folder, timeout: .seconds(120))
            #expect(run.code == 0, "\(run.errors)")
            // One answer would have been one line.
            let lines = run.output.utf8.split(separator: UInt8(ascii: "\n"))
            #expect(lines.count == 5)
            for (number, line) in lines.enumerated() {
                #expect(String(Substring(line.prefix(400))).contains("\"\(number) xxx"))
                #expect(line.count > long.utf8.count)
            }
        }
    }
}
