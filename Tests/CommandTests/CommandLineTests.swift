import ArgumentParser
import Console
import Coordinator
import Testing

@testable import TributaryCLI

@Suite("The command line")
struct CommandLineTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    @Test("The version goes to standard output and ends with 0")
    func version() async throws {
        let outcome = try await program.run(["--version"])
        #expect(outcome.exitCode == 0)
        #expect(outcome.output.hasPrefix("tributary 0."))
    }

    @Test("A directory in a store's place is reported as one")
    func directory() async throws {
        for command in [["status", "--store", "/tmp"], ["sql", "--store", "/tmp", "SELECT 1"]] {
            let outcome = try await program.run(command)
            #expect(outcome.exitCode == 1)
            #expect(outcome.errors.contains("/tmp is a directory; name the store's file in it."))
        }
    }

    @Test("The node gets the author of a resolution and of an undo")
    func authors() async throws {
        let node = try CannedNode(status: 200, body: #"{"transaction": "1.1-1"}"#)
        _ = try await program.run([
            "conflicts", "resolve", "A.p1.x", "--side", "1.1-1", "--author", "Eve", "--node",
            node.url,
        ])
        _ = try await program.run([
            "conflicts", "undo", "A.p1.x", "--author", "Eve", "--node", node.url,
        ])
        #expect(node.bodies.count == 2)
        for body in node.bodies { #expect(body.contains(#""author":"Eve""#)) }
    }

    @Test("A number of a substitution that a double would round is given as text")
    func substitutions() throws {
        #expect(FetchOptions.value("0.1234567890123456789") == "0.1234567890123456789")
        #expect(FetchOptions.value("0.5") == .double(0.5))
        #expect(FetchOptions.value("7") == 7)
        #expect(FetchOptions.value("Ada") == "Ada")
    }

    @Test("What is too large for the node was not saved; only that record is refused")
    func tooLarge() async throws {
        let failure = CommandFailure(
            status: 413,
            body: Array(#"{"error": {"code": "bodyTooLarge", "message": "Too large."}}"#.utf8))
        #expect(failure.isTooLarge && !failure.mayHaveHappened && failure.code == .failed)
    }

    @Test("Every command is known by its name")
    func names() {
        func check(_ command: any ParsableCommand.Type, _ path: [String]) {
            for child in command.configuration.subcommands {
                let path = path + [child._commandName]
                #expect(UnknownCommand(in: path, of: TributaryCommand.self) == nil)
                check(child, path)
            }
        }
        check(TributaryCommand.self, [])
    }
}
