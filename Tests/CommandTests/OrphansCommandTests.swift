import Coordinator
import Foundation
import Merge
import TestSupport
import Testing

/// What `tributary orphans` prints.
@Suite("The commands for orphans")
struct OrphansCommandTests {
    private var program: TestProgram { get throws { try TestProgram() } }
    private static let name = "2.14-2"

    /// A store that keeps one orphan, of a time that does not change.
    private static func inStore(_ body: (String) async throws -> Void) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("n1.sqlite").path
        try ProgramTests.makeStore(path)
        let model = try PersistentStoreCoordinator(readingStoreAt: path).model
        var options = PersistentStoreCoordinator.Options()
        options.wallMilliseconds = { 1_800_000_060_000 }
        let coordinator = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "demo", node: try #require(NodeID(1)),
            options: options)
        let dot = try #require(Dot(name))
        var seen = VersionVector()
        seen.advance(dot.actor, to: 1)
        var transaction = Transaction(
            dot: dot,
            timestamp: try #require(HybridTimestamp(milliseconds: 1_800_000_000_000, counter: 0)),
            seen: seen, modelHash: model.modelHash,
            shapes: [ChangeShape(entity: "Person", assigned: ["age", "name"])],
            changes: [
                Change(
                    kind: .insert, shape: 0,
                    row: RowID(node: dot.actor.node, block: 1, counter: 5),
                    values: [.integer(7), .string("Zoe")])
            ])
        transaction.author = "ann"
        try coordinator.keepOrphans([EncodedTransaction(transaction)])
        coordinator.close()
        try await body(path)
    }

    @Test("The list has a line each; what one would have written is shown as history shows it")
    func shown() async throws {
        try await Self.inStore { path in
            let list = try await program.run(["orphans", "list", "--store", path])
            #expect(list.exitCode == 0, "\(list)")
            let rows = list.output.split(separator: "\n").map {
                $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            }
            #expect(
                rows == [
                    ["TRANSACTION", "SAVED", "AUTHOR", "CONTEXT", "CHANGES", "KEPT"],
                    [
                        Self.name, "2027-01-15T08:00:00.000Z", "ann", "", "1",
                        "2027-01-15T08:01:00.000Z",
                    ],
                ], "\(list.output)")
            let one = try await program.run(["orphans", "show", Self.name, "--store", path])
            #expect(
                one.output == """
                    2.14-2  2027-01-15T08:00:00.000Z  by ann
                      insert Person/p562949961809925  age: 7, name: Zoe
                    had seen 2:1
                    kept     2027-01-15T08:01:00.000Z

                    """)
            let json = try await program.run(["orphans", "list", "--json", "--store", path])
            let answer = try JSONParser.parse(Array(json.output.utf8)).object
            let orphan = answer?["orphans"]?.array?.first?.object
            #expect(
                orphan?.members.map(\.key) == [
                    "transaction", "keptAt", "damaged", "timestamp", "seen", "author", "context",
                    "saveID", "changes",
                ])
            let status = try await program.run(["status", "--store", path])
            #expect(status.output.contains(Self.name) && status.output.contains("is kept"))
        }
    }

    @Test("An unknown name and what is no name are refused; so is discarding in a file")
    func refused() async throws {
        try await Self.inStore { path in
            let unknown = try await program.run(["orphans", "show", "2.14-3", "--store", path])
            #expect(unknown.exitCode == 1 && unknown.errors.contains("No orphan 2.14-3"))
            let none = try await program.run(["orphans", "show", "nonsense", "--store", path])
            #expect(none.exitCode == 2 && none.errors.contains("is not the name of a transaction"))
            let file = try await program.run(["orphans", "discard", Self.name, "--store", path])
            #expect(file.exitCode == 2)
        }
    }

    @Test("One is discarded at the node")
    func discarded() async throws {
        let node = try CannedNode(status: 200, body: #"{"discarded": true}"#)
        let done = try await program.run(["orphans", "discard", Self.name, "--node", node.url])
        #expect(done.exitCode == 0 && done.output == "2.14-2 is discarded.\n", "\(done)")
        #expect(node.requests == ["DELETE /v1/orphans/2.14-2 HTTP/1.1"])
        let none = try CannedNode(status: 200, body: #"{"orphans": [], "next": null}"#)
        let list = try await program.run(["orphans", "list", "--node", none.url])
        #expect(list.output == "There are none.\n")
        #expect(none.requests == ["GET /v1/orphans?limit=100 HTTP/1.1"])
    }
}
