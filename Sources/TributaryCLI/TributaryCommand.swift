// The program: its commands, and what their errors mean.

import ArgumentParser
import Console
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
            8 other model or store layout, 9 no space, 10 generation expired, 11 no answer from \
            the node, 12 NodeID in use, 13 saved, but not acknowledged in time by enough nodes.
            """,
        version: "tributary 0.1.0-dev (protocol revision \(ProtocolRevision.current))",
        subcommands: [
            ServeCommand.self, SaveCommand.self, FetchCommand.self, CountCommand.self,
            UpdateCommand.self, DeleteCommand.self,
            ImportCommand.self, ExportCommand.self, StatusCommand.self, HistoryCommand.self,
            BlameCommand.self, LogCommand.self, DiffCommand.self, UndoCommand.self,
            PolicyCommand.self,
            ConsumersCommand.self, GenerationsCommand.self, ConflictsCommand.self,
            InspectCommand.self,
            OrphansCommand.self, VerifyCommand.self,
            ModelCommand.self, SQLCommand.self, AdviseCommand.self, BackupCommand.self,
            RestoreCommand.self,
            RebuildCommand.self, KeygenCommand.self, KeysCommand.self, MemberCommand.self,
            ManualCommand.self,
        ])

    static func main() async {
        Glibc.exit(await run(Array(CommandLine.arguments.dropFirst())))
    }

    /// Runs the program with arguments and gives its exit code.
    static func run(_ arguments: [String]) async -> Int32 {
        await Program.run(
            Self.self, arguments,
            elsewhere: [
                "demo": "tributary-lab", "simulate": "tributary-lab", "scale": "tributary-lab",
            ]
        ) { error in
            switch error {
            case is any ExitCodeProviding, is Coordinator.PredicateError, is JSONError,
                is FetchRequestError:
                CommandFailure(describing: error)
            default: nil
            }
        }
    }
}
