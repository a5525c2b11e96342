// The program: parses arguments, runs a subcommand, ends with a code that scripts can use.

import ArgumentParser
import Coordinator
import Foundation
import Node

/// `tributary`.
@main
struct TributaryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tributary",
        abstract: "A distributed object graph: serve, save, fetch, and inspect conflicts.",
        discussion: """
            Commands ask the node at --node URL (by default TRIBUTARY_NODE, or \
            http://127.0.0.1:7100); those that only read can read a store with --store FILE.

            Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused (conflict, \
            validation), 4 outcome unknown, 5 store damaged, 6 store in use, 7 not authorised, \
            8 model or protocol mismatch, 9 no space, 10 generation expired, 11 no answer from \
            the node, 12 NodeID in use, 13 saved, but not acknowledged in time by enough nodes.
            """,
        version: "tributary 0.1.0-dev (protocol revision \(ProtocolRevision.current))",
        subcommands: [
            ServeCommand.self, SaveCommand.self, FetchCommand.self, CountCommand.self,
            ImportCommand.self, ExportCommand.self, StatusCommand.self, HistoryCommand.self,
            ConsumersCommand.self, GenerationsCommand.self, ConflictsCommand.self,
            OrphansCommand.self, VerifyCommand.self,
            ModelCommand.self, SQLCommand.self, BackupCommand.self, RestoreCommand.self,
            RebuildCommand.self, KeygenCommand.self, KeysCommand.self, MemberCommand.self,
            DemoCommand.self, SimulateCommand.self,
        ])

    static func main() async {
        Glibc.exit(await run(Array(CommandLine.arguments.dropFirst())))
    }

    /// Runs the program with arguments and gives its exit code.
    static func run(_ arguments: [String]) async -> Int32 {
        do {
            if let unknown = UnknownCommand(in: arguments, of: Self.self) {
                return end(unknown.failure)
            }
            var command = try parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return 0
        } catch { return end(error, arguments) }
    }

    /// Tells of an error, and gives its exit code.
    private static func end(_ error: any Error, _ arguments: [String]) -> Int32 {
        do {
            return try tell(error, arguments)
        } catch { return end(error) }
    }

    /// Tells of an error on standard error alone, and gives its exit code.
    private static func end(_ failure: CommandFailure) -> Int32 {
        if failure.isUnread { return 0 }
        let label = Terminal.error.style.paint("Error:", .red)
        Terminal.complain("\(label) \(DisplayText.line(failure.message))\n")
        return failure.code.rawValue
    }

    private static func tell(
        _ error: any Error, _ arguments: [String]
    ) throws(CommandFailure) -> Int32 {
        if let code = error as? ExitCode { return code.rawValue }
        let known =
            error is CommandFailure || error is any ExitCodeProviding
            || error is Coordinator.PredicateError
            || error is JSONError || error is FetchRequestError
        if !known {
            let code = exitCode(for: error).rawValue
            let message = fullMessage(for: error)
            if code == 0 {
                try Terminal.print(message)
                return 0
            }
            if code == 64 {
                Terminal.complain(message + "\n")
                return CommandFailure.Code.usage.rawValue
            }
        }
        let failure = CommandFailure(describing: error)
        if let answer = failure.answer, arguments.contains("--json") {
            try Terminal.print(bytes: answer)
        }
        return end(failure)
    }
}
