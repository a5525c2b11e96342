import Coordinator
import Testing

/// `tributary update` and `tributary delete`.
@Suite("The commands of batch requests")
struct BatchCommandTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    @Test("An update says what it assigns, and how many it was done with")
    func update() async throws {
        let node = try CannedNode(
            status: 200,
            body: """
                {"count":10000,"transactions":1,"token":"t"}
                {"count":10001,"transactions":2,"token":"t","end":true}

                """)
        let run = try await program.run([
            "update", "Person", "--where", "name == $n", "--substitution", "n=Ada", "--set",
            "age=37", "--set", "name=Ada L", "--set", "nick=\"42\"", "--save-id", "s", "--author",
            "me", "--node", node.url,
        ])
        #expect(run.exitCode == 0, "\(run)")
        #expect(run.output == "Updated 10001 objects, in 2 transactions.\n")
        #expect(node.requests == ["POST /v1/batch HTTP/1.1"])
        #expect(
            node.bodies == [
                #"{"update":{"entity":"Person","predicate":"name == $n","substitutions":{"n":"Ada"},"#
                    + #""values":{"age":37,"name":"Ada L","nick":"42"}},"saveID":"s","author":"me"}"#
            ])
    }

    @Test("A dry run asks for nothing but the count")
    func dryRun() async throws {
        let node = try CannedNode(status: 200, body: #"{"count":1,"transactions":0}"#)
        let run = try await program.run([
            "delete", "Person", "--all", "--sort=-age", "--limit", "5", "--dry-run", "--node",
            node.url,
        ])
        #expect(run.output == "Would delete 1 object.\n", "\(run)")
        #expect(
            node.bodies == [
                #"{"delete":{"entity":"Person","sort":["-age"],"limit":5},"dryRun":true}"#
            ])
    }

    @Test("What was done before a failure is told, and how to go on")
    func failed() async throws {
        let node = try CannedNode(
            status: 200,
            body: """
                {"count":10000,"transactions":1,"token":"t"}
                {"error":{"code":"diskFull","message":"No room.","done":{"count":10000,"transactions":1}},"status":507}

                """)
        let run = try await program.run([
            "delete", "Person", "--all", "--save-id", "s", "--node", node.url,
        ])
        #expect(run.exitCode == 9, "\(run)")
        #expect(run.errors.contains("Deleted 10000 objects before that."))
        #expect(run.errors.contains("--save-id s"))
        // One that is cut off may be done.
        let cut = try CannedNode(status: 200, body: "{\"count\":10000,\"transactions\":1}\n")
        let unknown = try await program.run([
            "delete", "Person", "--all", "--save-id", "s", "--node", cut.url,
        ])
        #expect(unknown.exitCode == 4, "\(unknown)")
        #expect(unknown.errors.contains("--save-id s"))
    }

    @Test(
        "Flags that make no sense are refused",
        arguments: [
            ["update", "Person", "--all"], ["update", "Person", "--set", "age=1"],
            ["update", "Person", "--all", "--where", "age == 1", "--set", "age=1"],
            ["update", "Person", "--all", "--set", "age"], ["delete"], ["delete", "Person"],
            ["delete", "Person", "--all", "--limit", "0"],
            ["delete", "Person", "--object", "x-tributary://demo/Person/p1"],
        ])
    func refused(_ arguments: [String]) async throws {
        let run = try await program.run(arguments + ["--node", "http://127.0.0.1:9"])
        #expect(run.exitCode == 2, "\(run)")
    }
}
