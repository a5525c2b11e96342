import Coordinator
import Foundation
import Testing

@testable import TributaryCLI

@Suite("Requests of the program")
struct RequestTests {
    @Test("A client waits as long as the node may, and a day if all of the store is read")
    func deadlines() {
        func deadline(_ path: String, _ seconds: JSONValue? = nil) -> Duration {
            var body = JSONObject()
            body["timeoutSeconds"] = seconds
            return NodeInterface.deadline(path, .object(body))
        }
        #expect(NodeInterface.deadline("/v1/status", nil) == .seconds(75))
        #expect(deadline("/v1/save") == .seconds(75))
        #expect(deadline("/v1/save", .integer(3_600)) == .seconds(3_675))
        #expect(deadline("/v1/fetch", .double(0.5)) == .milliseconds(75_500))
        #expect(NodeInterface.deadline("/v1/objects/A/p1?timeoutSeconds=30", nil) == .seconds(105))
        // The node refuses these at once.
        for wrong in [JSONValue.integer(-1), .integer(.max), .double(1e300), .string("10")] {
            #expect(deadline("/v1/save", wrong) == .seconds(75))
        }
        for path in ["/v1/verify", "/v1/backup"] {
            #expect(deadline(path) == .seconds(86_400))
        }
    }

    @Test("The sides that were seen are sent along, and without them none are looked up")
    func seenSides() async throws {
        let program = try TestProgram()
        let node = try CannedNode(
            status: 200, body: #"{"transaction": "3.00000000000000aa-1"}"#)
        let (one, other) = ("1.00000000000000aa-5", "2.00000000000000aa-5")
        let commands = [
            ["resolve", "Person.p1.name", "--side", one, "--seen", "\(one),\(other)"],
            ["resolve", "Person.p1.name", "--side", one],
            ["undo", "Person.p1.name@7", "--seen", one], ["undo", "Person.p1.name"],
        ]
        for arguments in commands {
            let outcome = try await program.run(["conflicts"] + arguments + ["--node", node.url])
            #expect(outcome.exitCode == 0, "\(outcome)")
        }
        #expect(
            node.requests == [
                "POST /v1/conflicts/Person.p1.name/resolution HTTP/1.1",
                "POST /v1/conflicts/Person.p1.name/resolution HTTP/1.1",
                "POST /v1/conflicts/Person.p1.name%407/undo HTTP/1.1",
                "POST /v1/conflicts/Person.p1.name/undo HTTP/1.1",
            ])
        let sent = try node.bodies.map { body in
            try JSONParser.parse(Array(body.utf8)).object?["sides"]?.array?.compactMap(\.string)
        }
        let expected: [[String]?] = [[one, other], nil, [one], nil]
        #expect(sent == expected)
    }

    @Test("Sides that have changed end with 3, and so that several are resolved none may be given")
    func changedSides() async throws {
        let program = try TestProgram()
        let node = try CannedNode(
            status: 409, body: #"{"error": {"code": "sidesChanged", "message": "Others by now"}}"#)
        for command in [["resolve", "A.p1.b", "--delete"], ["undo", "A.p1.b"]] {
            let outcome = try await program.run(
                ["conflicts"] + command + ["--seen", "1.00000000000000aa-5", "--node", node.url])
            #expect(outcome.exitCode == 3)
            #expect(outcome.errors.contains("Look at it again"))
        }
        let several = try await program.run([
            "conflicts", "resolve", "A.p1.b", "A.p2.b", "--policy", "overwrite", "--seen", "x",
        ])
        #expect(several.exitCode == 2 && several.errors.contains("without --seen"))
    }
}
