import Coordinator
import Foundation
import Merge
import TestSupport
import Testing

@Suite("The program")
struct ProgramTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    @Test(
        "Wrong flags end with 2 and say what is wrong",
        arguments: [
            (["--nonsense"], "--nonsense"), (["fetch"], "<entity>"), (["frobnicate"], "frobnicate"),
            (["fetsh", "Person"], "Did you mean `tributary fetch`?"),
            (["help", "nope"], "tributary has no command nope"),
            (["help", "conflicts", "lsit"], "Did you mean `tributary conflicts list`?"),
            (["conflicts", "resolv"], "Did you mean `tributary conflicts resolve`?"),
            (["import", "/tmp", "--entity", "A", "--format", "csv"], "/tmp is a directory"),
            (["import", "x.jsonl", "--entity", "A", "--delimiter", ";"], "--delimiter is for CSV"),
            (["fetch", "Person", "--limit", "0"], "--limit is at least 1"),
            (["fetch", "Person", "--store", "a", "--node", "b"], "exclude each other"),
            (["conflicts", "resolve", "Person.p1.name"], "Give one of"),
            (["import", "x.unknown", "--entity", "A"], "--format"),
            (["fetch", "Person", "--node", "ftp://x"], "is not http://host:port"),
            (["serve", "--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
            (["model", "/nonexistent.json"], "cannot be read"),
        ])
    func usage(_ arguments: [String], _ message: String) async throws {
        let outcome = try await program.run(arguments)
        #expect(outcome.exitCode == 2)
        #expect(outcome.errors.contains(message))
        #expect(outcome.output == "")
    }

    @Test("Help goes to standard output and ends with 0; it lists every command")
    func help() async throws {
        let outcome = try await program.run(["--help"])
        #expect(outcome.exitCode == 0)
        let names = [
            "serve", "save", "fetch", "conflicts", "import", "export", "verify", "rebuild",
        ]
        for name in names {
            #expect(outcome.output.contains("  \(name) "))
        }
        #expect(outcome.errors == "")
    }

    @Test("Without a node it ends with 11 and says how to name another")
    func noNode() async throws {
        // Port 1 is never listened on.
        let outcome = try await program.run(
            ["status"], environment: ["TRIBUTARY_NODE": "http://127.0.0.1:1"])
        #expect(outcome.exitCode == 11)
        #expect(
            outcome.errors
                == "Error: No node listens at 127.0.0.1:1. Is it running? Name another with "
                + "--node URL or TRIBUTARY_NODE.\n")
    }

    @Test("A variable of the environment that is set to nothing counts as not set")
    func emptyVariables() async throws {
        let node = try CannedNode(status: 200, body: #"{"conflicts": []}"#)
        let outcome = try await program.run(
            ["conflicts", "list", "--json", "--node", node.url],
            environment: ["TRIBUTARY_TOKEN_FILE": "", "TRIBUTARY_CA_FILE": ""])
        #expect(outcome.exitCode == 0, "\(outcome)")
    }

    @Test("A save without operations reads otherwise than one that the policy decided against")
    func emptySave() async throws {
        let node = try CannedNode(status: 200, body: #"{"transaction": null}"#)
        let none = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": []}"#)
        #expect(none.output == "There was nothing to save: - has no operations.\n")
        let some = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": [{"insert": "A"}]}"#)
        #expect(some.output.contains("or the merge policy kept the store's"))
    }

    @Test("The status shows for each peer what is missing there and what is missing here")
    func missing() async throws {
        let node = try CannedNode(
            status: 200,
            body: #"{"peers": [{"node": 2, "connected": true, "lag": 4, "missingHere": 3}]}"#)
        let outcome = try await program.run(["status", "--node", node.url])
        let lines = outcome.output.split(separator: "\n").suffix(2)
            .map { $0.split(separator: "\t") }
        #expect(lines.first?.prefix(4) == ["PEER", "STATE", "MISSING THERE", "MISSING HERE"])
        #expect(lines.last?.prefix(4) == ["2", "connected", "4", "3"])
    }

    @Test("The status shows what came of other models and has no place here")
    func parked() async throws {
        let node = try CannedNode(
            status: 200, body: #"{"parked": [{"place": "Note.colour", "count": 3}]}"#)
        let outcome = try await program.run(["status", "--node", node.url])
        #expect(outcome.output.contains("parked      Note.colour: 3 values, for which the model"))
        let none = try CannedNode(status: 200, body: #"{"parked": []}"#)
        let without = try await program.run(["status", "--node", none.url])
        #expect(without.exitCode == 0 && !without.output.contains("parked"))
    }

    @Test("The status shows why saves are refused, and what was raised last")
    func alarms() async throws {
        let node = try CannedNode(
            status: 200,
            body: """
                {"savesRefused": {"code": "recovering", "message": "Not yet."}, "alarms": [
                {"name": "refused", "text": "A peer (peer 2)", "count": 3, "lastMillisecondsAgo": 7000},
                {"name": "departed", "text": "Gone", "count": 1, "lastMillisecondsAgo": 1000}]}
                """)
        let outcome = try await program.run(["status", "--node", node.url])
        let lines = outcome.output.split(separator: "\n").suffix(3)
        #expect(
            lines == [
                "saves       refused: Not yet.",
                "alarm       refused, 3 times, the last 7 s ago: A peer (peer 2)",
                "alarm       departed, 1 s ago: Gone",
            ])
        let quiet = try CannedNode(status: 200, body: #"{"savesRefused": null, "alarms": []}"#)
        let without = try await program.run(["status", "--node", quiet.url])
        #expect(without.exitCode == 0)
        #expect(!without.output.contains("saves") && !without.output.contains("alarm"))
    }

    @Test("A command of the laboratory is reported as one of tributary-lab")
    func elsewhere() async throws {
        for command in ["demo", "simulate", "scale"] {
            let outcome = try await program.run([command, "--help"])
            #expect(outcome.exitCode == 2 && outcome.output.isEmpty)
            #expect(outcome.errors.contains("\(command) is a command of tributary-lab"))
        }
        let nested = try await program.run(["conflicts", "demo"])
        #expect(nested.exitCode == 2 && nested.errors.contains("no command demo"))
    }

    @Test("With --json it prints the very bytes of the answer")
    func verbatim() async throws {
        let body = "{ \"conflicts\":[ ],\"more\" : 1.50 }"
        let node = try CannedNode(status: 200, body: body)
        let outcome = try await program.run(["conflicts", "list", "--json", "--node", node.url])
        #expect(outcome.exitCode == 0)
        #expect(outcome.output == body + "\n")
        #expect(node.requests == ["GET /v1/conflicts?state=all&limit=100 HTTP/1.1"])
    }

    @Test(
        "A refusal ends with the contract's code and one line on standard error",
        arguments: [
            (409, "mergeConflict", 3), (409, "conditionFailed", 3), (422, "validationFailed", 3),
            (401, "unauthorized", 7),
            (410, "queryGenerationExpired", 10), (507, "diskFull", 9), (500, "outcomeUnknown", 4),
            (504, "acknowledgementTimeout", 13),
        ])
    func refusals(_ status: Int, _ code: String, _ expected: Int32) async throws {
        let body = "{\"error\":{\"code\":\"\(code)\",\"message\":\"It was refused\"}}"
        let node = try CannedNode(status: status, body: body)
        let outcome = try await program.run(
            ["save", "-", "--node", node.url], input: "{\"operations\":[]}")
        #expect(outcome.exitCode == expected)
        #expect(outcome.errors.hasPrefix("Error: It was refused."))
        #expect(outcome.errors.count { $0 == "\n" } == 1)
    }

    @Test("A save is bulk where its flag or its file says so")
    func bulk() async throws {
        let node = try CannedNode(status: 200, body: #"{"transaction": null}"#)
        let files = [#"{"operations": []}"#, #"{"operations": [], "bulk": true}"#]
        for (flags, file) in [([], files[0]), (["--bulk"], files[0]), ([], files[1])] {
            let outcome = try await program.run(
                ["save", "-", "--node", node.url] + flags, input: file)
            #expect(outcome.exitCode == 0, "\(outcome)")
        }
        #expect(node.bodies.map { $0.contains(#""bulk":true"#) } == [false, true, true])
    }

    @Test("A file in CBOR is saved as CBOR, and as JSON where the node takes no CBOR")
    func saveInCBOR() async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("save.cbor")
        let values: JSONValue = ["photo": .bytes([0, 255])]
        let operation: JSONValue = ["insert": .string("Person"), "values": values]
        let body: JSONValue = ["operations": .array([operation]), "saveID": .string("once")]
        let whole = CBORWriter.bytes(of: body)
        try Data(whole).write(to: file)
        for refusesCBOR in [false, true] {
            let node = try CannedNode(
                status: 200, body: #"{"transaction": "1.a-1"}"#, refusesCBOR: refusesCBOR)
            let outcome = try await program.run(["save", file.path, "--node", node.url])
            #expect(outcome.exitCode == 0 && outcome.output == "Saved as 1.a-1.\n", "\(outcome)")
            #expect(node.bytes.first == whole)
            let again = refusesCBOR ? [JSONWriter.bytes(of: body)] : []
            #expect(Array(node.bytes.dropFirst()) == again, "\(node.bodies)")
        }
        try Data(whole.dropLast()).write(to: file)
        let broken = try await program.run(["save", file.path, "--node", "http://127.0.0.1:9"])
        #expect(broken.exitCode == 2, "\(broken)")
        #expect(broken.errors.contains("as CBOR: byte \(whole.count - 1)"), "\(broken)")
    }

    @Test("A save passes conditions and increments on, and shows the sums")
    func increments() async throws {
        let uri = "x-tributary://demo/Counter/p1"
        let node = try CannedNode(
            status: 200,
            body: #"{"transaction": "1.a-1", "incremented": {"\#(uri)": {"n": 5, "p": "0.5"}}}"#)
        let operation = #"{"update":"\#(uri)","increment":{"n":1,"p":"0.1"},"if":"n > 3"}"#
        let outcome = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": [\#(operation)]}"#)
        #expect(outcome.exitCode == 0, "\(outcome)")
        #expect(node.bodies.first?.contains(operation) == true, "\(node.bodies)")
        #expect(outcome.output == "Saved as 1.a-1.\n\(uri)\tn 5\tp 0.5\n")
    }

    @Test("A save whose answers are lost ends with 4 and says by which ID to ask")
    func lostAnswers() async throws {
        let node = try CannedNode(status: 200, body: "{}", lost: .max)
        let outcome = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": [], "saveID": "a b"}"#)
        #expect(outcome.exitCode == 4, "\(outcome)")
        #expect(outcome.output == "")
        #expect(outcome.errors.contains("GET /v1/saves/a%20b"), "\(outcome.errors)")
        // With an ID it may be asked again, and was.
        #expect(node.requests.count > 1)
        #expect(node.requests.allSatisfy { $0 == "POST /v1/save HTTP/1.1" })
    }

    @Test("A save's ID that is no text is refused, and nothing is asked of a node")
    func wrongSaveID() async throws {
        let node = try CannedNode(status: 200, body: "{}")
        let outcome = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": [], "saveID": 17}"#)
        #expect(outcome.exitCode == 2, "\(outcome)")
        #expect(outcome.errors.contains("\"saveID\" is a number"))
        #expect(node.requests.isEmpty)
    }

    @Test("A save whose first answer is lost is asked for again, and is reported as any other")
    func answeredLate() async throws {
        let node = try CannedNode(
            status: 200, body: #"{"transaction": "1.6f3a91c04be1d277-5"}"#, lost: 2)
        let outcome = try await program.run(
            ["save", "-", "--node", node.url], input: #"{"operations": [{"insert": "A"}]}"#)
        #expect(outcome.exitCode == 0, "\(outcome)")
        #expect(outcome.output == "Saved as 1.6f3a91c04be1d277-5.\n")
        #expect(node.requests.count == 3)
    }

    @Test(
        "A change whose answer is lost ends with 4, a look with 11",
        arguments: [
            ("conflicts resolve A.p1.x --policy error", 4), ("conflicts undo A.p1.x", 4),
            ("member retire 3", 4), ("orphans discard 1.6f3a91c04be1d277-5", 4),
            ("backup b.sqlite", 4), ("keys reload", 4), ("consumers remove x", 4),
            ("status", 11), ("fetch A", 11), ("verify", 11),
        ])
    func lostChanges(_ command: String, _ expected: Int32) async throws {
        let node = try CannedNode(status: 200, body: "{}", lost: .max)
        let outcome = try await program.run(
            command.split(separator: " ").map(String.init) + ["--node", node.url])
        #expect(outcome.exitCode == expected, "\(outcome)")
    }

    @Test("Output that nobody could be given ends with 9 or 1")
    func lostOutput() async throws {
        let node = try CannedNode(status: 200, body: #"{"conflicts": []}"#)
        let lists = "conflicts list --json --node \(node.url)"
        for (redirection, expected) in [(">/dev/full", Int32(9)), (">&-", 1), ("| true", 0)] {
            let shell = TestProgram(url: URL(fileURLWithPath: "/bin/sh"))
            for arguments in [lists, "--help"] {
                let outcome = try await shell.run(
                    ["-c", "\(program.url.path) \(arguments) \(redirection)"])
                #expect(outcome.exitCode == expected, "\(redirection) \(outcome)")
                #expect((outcome.errors == "") == (expected == 0))
            }
        }
    }

    @Test("Of SQL there is one statement")
    func statements() async throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("sql-\(UUID().uuidString).sqlite").path
        defer {
            for end in ["", "-wal", "-shm", "-lock", "-incarnation"] {
                try? FileManager.default.removeItem(atPath: path + end)
            }
        }
        try Self.makeStore(path)
        func sql(_ text: String, _ flags: String...) async throws -> TestProgram.Outcome {
            try await program.run(["sql", text, "--store", path] + flags)
        }
        #expect(try await sql("SELECT 1 AS a; -- all").output == "a\n1\n")
        let two = try await sql("SELECT 1; SELECT 2")
        #expect(two.exitCode == 2 && two.errors.contains("several statements"))
        for text in ["", " ", "/* nothing */"] {
            let none = try await sql(text)
            #expect(none.exitCode == 2 && none.errors.contains("no SQL statement"))
        }
        let some = try await sql("VALUES (1), (2)", "--limit", "1")
        #expect(some.exitCode == 0 && some.output == "column1\n1\n")
        #expect(some.errors.contains("the first 1 rows"))
        let all = try await sql("VALUES (1), (2)", "--limit", "2")
        #expect(all.output == "column1\n1\n2\n" && all.errors == "")
        let wrong = try await sql("SELECT 1", "--limit=-1")
        #expect(wrong.exitCode == 2 && wrong.errors.contains("--limit is at least 1"))
    }

    @Test("A statement is explained as a tree, and not run")
    func explained() async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("n.sqlite").path
        try Self.makeStore(path)
        func explain(_ text: String, _ flags: String...) async throws -> TestProgram.Outcome {
            try await program.run(["sql", "--explain", text, "--store", path] + flags)
        }
        let tree = try await explain(
            "SELECT name FROM Person UNION SELECT 'x' FROM Person WHERE _id = 1")
        #expect(
            tree.output == """
                COMPOUND QUERY
                  LEFT-MOST SUBQUERY
                    SCAN Person
                  UNION USING TEMP B-TREE
                    SEARCH Person USING INTEGER PRIMARY KEY (rowid=?)

                """, "\(tree)")
        let json = try await explain("SELECT name FROM Person ORDER BY name", "--json")
        #expect(
            json.output == """
                {"plan":[{"depth":0,"detail":"SCAN Person"},\
                {"depth":0,"detail":"USE TEMP B-TREE FOR ORDER BY"}]}

                """)
        for text in ["DELETE FROM Person", "SELECT", "SELECT 1; SELECT 2", ""] {
            let refused = try await explain(text)
            #expect(refused.exitCode == 2 && refused.output == "", "\(text): \(refused)")
        }
    }

    @Test("A restoring says by which flag it replaces a store")
    func restoring() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("restore-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try "cluster: demo\nnode: 1\nstore: s\nmodel: m".write(
            toFile: "\(folder)/n.yaml", atomically: false, encoding: .utf8)
        try Data().write(to: URL(fileURLWithPath: "\(folder)/s"))
        let outcome = try await program.run(
            ["restore", "\(folder)/b", "--config", "\(folder)/n.yaml"])
        #expect(outcome.exitCode == 3 && outcome.errors.contains("--replace"))
        // What is no backup is not told of as the store, which may be sound.
        try Data(repeating: 0x5A, count: 8_192).write(to: URL(fileURLWithPath: "\(folder)/b"))
        let none = try await program.run(
            ["restore", "\(folder)/b", "--config", "\(folder)/n.yaml", "--replace"])
        #expect(none.exitCode == 5 && none.errors.contains("Take another backup"), "\(none)")
        #expect(!none.errors.contains("rebuild"), "\(none)")
    }

    @Test("A store's file is read as a node is, and what writes is refused")
    func store() async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("n1.sqlite").path
        try Self.makeStore(path)
        let fetch = try await program.run(
            [
                "fetch", "Person", "--where", "age > $least", "--substitution", "least=30",
                "--sort=-age", "--store", path,
            ])
        #expect(fetch.exitCode == 0)
        let lines = fetch.output.split(separator: "\n").map { $0.split(separator: "\t") }
        #expect(lines.map { $0.dropFirst().joined(separator: ",") } == ["age,name", "36,Ada"])
        let count = try await program.run(["count", "Person", "--store", path])
        #expect(count.output == "2\n")
        let sql = try await program.run(
            ["sql", "SELECT name FROM Person ORDER BY name", "--store", path])
        #expect(sql.output == "name\nAda\nBob\n" && sql.errors == "")
        let write = try await program.run(["sql", "DELETE FROM Person", "--store", path])
        #expect(write.exitCode == 2)
        let export = try await program.run(
            [
                "export", "Person", "--format", "csv", "--properties", "name", "--sort", "name",
                "--store", path,
            ])
        #expect(
            export.output.split(separator: "\n").map { $0.split(separator: ",").last }
                == ["name", "Ada", "Bob"])
        let verify = try await program.run(["verify", "--store", path])
        #expect(verify.exitCode == 0)
        #expect(verify.output.hasPrefix("Sound."))
        let missing = try await program.run(["fetch", "Person", "--store", path + "x"])
        #expect(missing.exitCode == 1)
        let wrong = try await program.run(["fetch", "Person", "--where", "age >", "--store", path])
        #expect(wrong.exitCode == 2)
    }

    static func makeStore(_ path: String) throws {
        let json = """
            {"entities": [{"name": "Person", "attributes": [
              {"name": "name", "type": "string"}, {"name": "age", "type": "integer64"}]}]}
            """
        let model = try ManagedObjectModel(json: Array(json.utf8))
        let coordinator = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "demo", node: try #require(NodeID(1)))
        let person = try #require(model.entity(named: "Person"))
        let people: [(String, Int64)] = [("Ada", 36), ("Bob", 12)]
        // Positions are in canonical order: age, name.
        _ = try coordinator.save(
            SaveRequest(
                operations: people.enumerated().map { index, entry in
                    SaveOperation(
                        kind: .insert, entity: person, row: RowID(-1 - Int64(index)),
                        values: [(0, .integer(entry.1)), (1, .string(entry.0))])
                }))
        coordinator.close()
    }
}
