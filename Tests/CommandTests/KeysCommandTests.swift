import Console
import Foundation
import Node
import TestSupport
import Testing

@testable import TributaryCLI

@Suite("The commands for keys")
struct KeysCommandTests {
    private static func inFolder(_ body: (TestProgram, URL) async throws -> Void) async throws {
        let program = try TestProgram()
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(program, folder)
    }

    private static func mode(_ file: String) throws -> Int? {
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue
    }

    @Test("A key pair is written once with the mode 0600; only its public half is printed")
    func pairs() async throws {
        try await Self.inFolder { program, folder in
            let file = folder.path + "/n1.secret"
            let made = try await program.run(["keygen", file])
            let key = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(made.exitCode == 0 && CurvePublicKey(key) != nil)
            #expect(try Self.mode(file) == 0o600)
            let secret = try String(contentsOfFile: file, encoding: .utf8)
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let shown = try await program.run(["keys", "public", file])
            #expect(shown.exitCode == 0 && shown.output == key + "\n")
            let again = try await program.run(["keygen", file, "--json"])
            #expect(again.exitCode == 2 && again.errors.contains("n1.secret"))
            #expect(!"\(made)\(shown)\(again)".contains(secret))
            #expect(chmod(file, 0o644) == 0)
            let open = try await program.run(["keys", "public", file])
            #expect(open.exitCode == 2 && open.errors.contains("chmod 600"))
        }
    }

    @Test("Of a secret that cannot be written nothing is left in its place")
    func unwritten() async throws {
        #expect(CommandFailure(describing: NodeError(.diskFull, "x")).code == .noSpace)
        try await Self.inFolder { program, folder in
            // No file may grow; the signal that tells of it is ignored, as a full disk has none.
            let limited = "trap '' XFSZ; ulimit -f 0; exec \(program.url.path)"
            let shell = TestProgram(url: URL(fileURLWithPath: "/bin/sh"))
            for command in ["keygen", "keys token"] {
                let made = try await shell.run(["-c", "\(limited) \(command) \(folder.path)/s"])
                #expect(made.exitCode == 2, "\(made)")
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])
            }
        }
    }

    @Test("A token is new, long, in a file with the mode 0600, and not printed")
    func tokens() async throws {
        try await Self.inFolder { program, folder in
            var tokens: Set<String> = []
            for name in ["a", "b"] {
                let file = folder.path + "/\(name).token"
                let made = try await program.run(["keys", "token", file])
                #expect(made.exitCode == 0)
                #expect(try Self.mode(file) == 0o600)
                let token = try String(contentsOfFile: file, encoding: .utf8)
                    .trimmingCharacters(in: .whitespacesAndNewlines)
                #expect(token.count == 64 && !made.output.contains(token))
                tokens.insert(token)
            }
            #expect(tokens.count == 2)
        }
    }

    @Test("What a reload came to is printed, and what is wrong with a file ends with 2")
    func reloading() async throws {
        let program = try TestProgram()
        let good = try CannedNode(
            status: 200,
            body: #"{"changed": ["node 2: keys"], "atNextStart": ["http.listen"]}"#)
        let done = try await program.run(["keys", "reload", "--node", good.url])
        #expect(done.exitCode == 0)
        #expect(done.output == "Changed: node 2: keys\nAt the next start: http.listen\n")
        #expect(good.requests == ["POST /v1/reload HTTP/1.1"])
        let bad = try CannedNode(
            status: 422,
            body: #"{"error": {"code": "secretUnreadable", "message": "k may be read by others"}}"#)
        let refused = try await program.run(["keys", "reload", "--node", bad.url])
        #expect(refused.exitCode == 2 && refused.errors.contains("k may be read by others"))
        let small = try CannedNode(
            status: 403, body: #"{"error": {"code": "forbidden", "message": "needs admin"}}"#)
        #expect(try await program.run(["keys", "reload", "--node", small.url]).exitCode == 7)
    }

    @Test("Keys and refusals of a node are listed")
    func listing() async throws {
        let program = try TestProgram()
        let node = try CannedNode(
            status: 200,
            body: """
                {"peers": [{"node": 2, "connected": false, "handshake": "refusedThere",
                  "publicKey": null, "refusal": "It does not list this node's key."}],
                 "keys": {"publicKey": "own", "listening": true, "refused": [
                  {"reason": "keyNotListed", "publicKey": "strange", "node": null,
                   "claimed": null, "address": "10.0.0.9", "count": 3}]}}
                """)
        let listed = try await program.run(["keys", "list", "--node", node.url])
        #expect(listed.exitCode == 0, "\(listed)")
        for text in ["own", "refusedThere", "does not list", "strange", "10.0.0.9"] {
            #expect(listed.output.contains(text), "\(listed.output)")
        }
        let keyless = try CannedNode(status: 200, body: #"{"peers": [], "keys": null}"#)
        let none = try await program.run(["keys", "list", "--node", keyless.url])
        #expect(none.output == "This mesh has no keys.\n")
    }
}
