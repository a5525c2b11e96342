import Coordinator
import Foundation
import TestSupport
import Testing

/// What `tributary advise` prints.
@Suite("The command for advice about indexes")
struct AdviseCommandTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    private static func inStore(_ body: (String) async throws -> Void) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("n1.sqlite").path
        try ProgramTests.makeStore(path)
        try await body(path)
    }

    @Test("For a request at a store's file the index is shown, with SQLite's plans and its cost")
    func shown() async throws {
        try await Self.inStore { path in
            let request = ["advise", "--store", path, "Person", "--where", "name == 'Ada'"]
            let shown = try await program.run(request + ["--sort=-age"])
            #expect(shown.exitCode == 0 && shown.errors == "", "\(shown)")
            let lines = shown.output.split(separator: "\n").map(String.init)
            #expect(lines.first == "ENTITY\tINDEX\tREQUESTS\tMS\tBYTES")
            #expect(lines.dropFirst().first?.hasPrefix("Person\tname, -age\t0\t0\t") == true)
            #expect(
                lines.contains(#"Person: {"name":"byNameAge","elements":["name","-age"]}"#))
            #expect(lines.contains("  name = ?, sorted by -age"))
            #expect(lines.contains("    now   SCAN t0"))
            #expect(
                lines.contains("    then  SEARCH t0 USING INDEX Person.byNameAge (name=?)"))
            #expect(lines.last == "  update of name or age, writes one more b-tree.")
            for line in lines { #expect(line.count <= 80, "\(line)") }
            let json = try await program.run(request + ["--json"])
            let answer = try JSONParser.parse(Array(json.output.utf8)).object
            #expect(answer?.members.map(\.key) == ["indexes", "observed", "dropped"])
        }
    }

    @Test("Where nothing is advised it says so, and ends with 0")
    func nothing() async throws {
        try await Self.inStore { path in
            let outcome = try await program.run([
                "advise", "--store", path, "Person", "--where", "name CONTAINS 'd'",
            ])
            #expect(outcome.exitCode == 0, "\(outcome)")
            #expect(outcome.output == "No index would be used that is not there.\n")
        }
        let node = try CannedNode(
            status: 200, body: #"{"indexes": [], "observed": 0, "dropped": 0}"#)
        let none = try await program.run(["advise", "--node", node.url])
        #expect(none.exitCode == 0 && none.output == "There were no requests yet.\n", "\(none)")
        #expect(node.requests == ["GET /v1/advice HTTP/1.1"])
    }

    @Test("A file without a request is refused, and so is a node with one")
    func refused() async throws {
        try await Self.inStore { path in
            for (arguments, reason) in [
                (["--store", path], "A store's file has seen no requests."),
                (["--store", path, "Person"], "give --where or --sort"),
                (["Person", "--where", "age > 3"], "give --store FILE"),
                (["--store", path, "Persson", "--sort", "age"], "Persson"),
                (["--store", path, "Person", "--where", "age >"], "The predicate is wrong"),
            ] {
                let outcome = try await program.run(["advise"] + arguments)
                #expect(outcome.exitCode == 2, "\(arguments): \(outcome)")
                #expect(outcome.errors.contains(reason), "\(outcome.errors)")
            }
        }
    }

    @Test("A node's advice has what the requests took, all added up")
    func node() async throws {
        let request = """
            {"equal": ["a"], "ranged": [], "sort": [], "text": "a = ?", "count": 7, \
            "milliseconds": 30, "rows": 9, "before": ["SCAN t0"], "after": ["SEARCH t0"]}
            """
        let node = try CannedNode(
            status: 200,
            body: """
                {"indexes": [{"entity": "Item", "index": {"name": "byA", "elements": ["a"]}, \
                "rows": 10, "bytes": 2048, "requests": [\(request), \(request)]}], \
                "observed": 2, "dropped": 0}
                """)
        let shown = try await program.run(["advise", "--node", node.url])
        #expect(shown.output.contains("Item\ta\t14\t60\t2.0 KiB\n"), "\(shown)")
        #expect(shown.output.contains("    7 requests, 30 ms, 9 rows\n"))
        #expect(shown.output.contains("  It takes about 2.0 KiB for 10 rows."))
    }
}
