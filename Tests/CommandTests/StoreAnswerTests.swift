import Console
import Coordinator
import Foundation
import GRDB
import Merge
import TestSupport
import Testing

@testable import TributaryCLI

/// A store's file answers what a node would, with the same exit codes.
@Suite("What a store's file answers")
struct StoreAnswerTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    private static func inFolder(
        _ body: (_ one: String, _ other: String) async throws -> Void
    ) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let paths = ["n1.sqlite", "n2.sqlite"].map { folder.appendingPathComponent($0).path }
        for path in paths { try ProgramTests.makeStore(path) }
        try await body(paths[0], paths[1])
    }

    private enum Page: Equatable {
        case transactions(Int)
        case refused(Int32)
    }

    /// The token of what a store holds.
    private func token(_ store: String) async throws -> String {
        let outcome = try await program.run(["fetch", "Person", "--json", "--store", store])
        return try #require(
            try JSONParser.parse(Array(outcome.output.utf8)).object?["token"]?.string)
    }

    @Test("A fetch after a token that the file does not cover is refused, and not answered without")
    func fetchAfter() async throws {
        try await Self.inFolder { one, other in
            let fetch = ["fetch", "Person", "--store", one, "--after"]
            let (ownToken, otherToken) = (try await token(one), try await token(other))
            let own = try await program.run(fetch + [ownToken])
            #expect(own.exitCode == 0 && own.output.contains("Ada"), "\(own)")
            let foreign = try await program.run(fetch + [otherToken])
            // As a node ends that has waited in vain.
            #expect(foreign.exitCode == 1 && foreign.output.isEmpty)
            #expect(foreign.errors.contains("lacks some of what the token names"))
            let none = try await program.run(fetch + ["nonsense"])
            #expect(none.exitCode == 2 && none.errors.contains("must be a token"))
        }
    }

    @Test("The status has the members of a node's")
    func status() async throws {
        try await Self.inFolder { one, _ in
            let outcome = try await program.run(["status", "--json", "--store", one])
            let status = try #require(try JSONParser.parse(Array(outcome.output.utf8)).object)
            #expect(
                status.members.map(\.key) == [
                    "node", "actor", "cluster", "vector", "generation", "token", "digest",
                    "modelHash", "parked", "members", "peers", "conflicts", "pins", "store",
                    "held", "transfer", "savesRefused", "alarms", "keys", "stability", "history",
                    "reads", "answers",
                ])
            let conflicts = status["conflicts"]?.object?.members.map(\.key)
            #expect(conflicts == ["unresolved", "settled"])
            #expect(status["store"]?.object?["bytes"]?.integer ?? 0 > 0)
            #expect(status["history"]?.object?["transactions"] == .integer(1))
            let shown = try await program.run(["status", "--store", one])
            #expect(shown.exitCode == 0, "\(shown)")
            for line in ["store       bytes: ", "history     1 transactions", "conflicts   none"] {
                #expect(shown.output.contains(line), "\(shown.output)")
            }
        }
    }

    @Test("History goes on after a token of any node, and where it was purged ends with 10")
    func history() async throws {
        try await Self.inFolder { one, other in
            /// How many transactions come, or how it ends if that is unknown.
            func history(_ flags: String...) async throws -> Page {
                let outcome = try await program.run(["history", "--json", "--store", one] + flags)
                guard outcome.exitCode == 0 else { return .refused(outcome.exitCode) }
                let answer = try JSONParser.parse(Array(outcome.output.utf8)).object
                return .transactions(answer?["transactions"]?.array?.count ?? -1)
            }
            let (ownToken, otherToken) = (try await token(one), try await token(other))
            #expect(try await history() == .transactions(1))
            #expect(try await history("--after", ownToken) == .transactions(0))
            #expect(try await history("--after", otherToken) == .transactions(1))
            #expect(try await history("--after", "nonsense") == .refused(2))
            let database = try DatabaseQueue(path: one)
            try await database.write { try $0.execute(sql: "DELETE FROM _transaction") }
            try database.close()
            #expect(try await history("--after", otherToken) == .refused(10))
            #expect(try await history("--after", ownToken) == .transactions(0))
        }
    }

    @Test("What a node refuses of a list is refused")
    func bounds() async throws {
        try await Self.inFolder { one, _ in
            for arguments in [
                ["history", "--limit", "10000000000"],
                ["conflicts", "list", "--limit", "10000000000"],
                ["conflicts", "list", "--entity", "Persson"],
                ["conflicts", "list", "--object", "x-tributary://elsewhere/Person/p1"],
            ] {
                let outcome = try await program.run(arguments + ["--store", one])
                #expect(outcome.exitCode == 2, "\(arguments): \(outcome)")
            }
            let many = try await program.run(["history", "--limit", "20000", "--store", one])
            #expect(many.exitCode == 0, "\(many)")
        }
    }

    @Test("That history was purged ends as that a generation was given up")
    func purged() {
        let error = CoordinatorError(.historyTokenExpired, "Gone.")
        #expect(CommandFailure(describing: error).code == .generationExpired)
    }
}
