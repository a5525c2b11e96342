import Coordinator
import Foundation
import GRDB
import Merge
import TestSupport
import Testing

@Suite("Verification by the program")
struct VerifyCommandTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    @Test("Only a store that is not sound itself is reported as damaged")
    func damaged() async throws {
        let peers = """
            {"2": {"digest": "ab", "agrees": false}, "3": {"digest": "cd", "agrees": true}, \
            "4": {"digest": "ef", "agrees": null}}
            """
        let sound = try CannedNode(
            status: 200,
            body: """
                {"ok": false, "sound": true, "digest": "cd", "recomputed": "cd", "peers": \(peers), \
                "differences": ["node 2 shows something else"]}
                """)
        let elsewhere = try await program.run(["verify", "--node", sound.url])
        #expect(elsewhere.exitCode == 1)
        #expect(
            elsewhere.output == """
                Sound. The digest is cd.
                Node 2 shows something else at the same vector: its digest is ab.
                Node 3 shows the same.
                Node 4 is at another vector, or was not heard yet: not compared.

                """)
        #expect(elsewhere.errors.contains("is sound, and another node shows something else"))
        let damaged = try CannedNode(
            status: 200,
            body: """
                {"ok": false, "sound": false, "digest": "cd", "recomputed": "12", "peers": \(peers), \
                "differences": ["Person 1-1"]}
                """)
        let here = try await program.run(["verify", "--node", damaged.url])
        #expect(here.exitCode == 5)
        #expect(here.output == "The digest kept is cd, that of the rows 12.\n  Person 1-1\n")
        // A reader of the first line only gets the exit code as well.
        let unread = try await program.run(["verify", "--node", damaged.url], isUnread: true)
        #expect(unread.exitCode == 5)
    }

    @Test("Two stores that have seen the same saves are compared object by object")
    func compared() async throws {
        let (folder, one, other) = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try ProgramTests.makeStore(one)
        try FileManager.default.copyItem(atPath: one, toPath: other)
        let same = try await program.run(["verify", "--store", one, "--against", other])
        #expect(same.exitCode == 0, "\(same)")
        #expect(same.output.hasSuffix("Both have seen the same saves, and show the same.\n"))

        // As a merge would that is wrong on one side: rows that differ, each with its own digest.
        let database = try DatabaseQueue(path: other)
        try await database.write { database in
            try database.execute(sql: "UPDATE Person SET name = 'Eve' WHERE name = 'Ada'")
            try database.execute(sql: "DELETE FROM Person WHERE name = 'Bob'")
        }
        let damaged = try await program.run(["verify", "--store", one, "--against", other])
        #expect(damaged.exitCode == 5)
        #expect(damaged.errors.contains("\(other) does not hold what was written."))
        #expect(damaged.output.hasSuffix(try Self.table(one)))

        let json = try await program.run(["verify", "--json", "--store", other])
        let found = try #require(
            try JSONParser.parse(Array(json.output.utf8)).object?["recomputed"]?.string)
        let lanes = try [found.prefix(16), found.suffix(16)].map {
            Int64(bitPattern: try #require(UInt64($0, radix: 16)))
        }
        try await database.write { database in
            try database.execute(
                sql: "UPDATE _state SET digestHigh = ?, digestLow = ?",
                arguments: [lanes[0], lanes[1]])
        }
        let different = try await program.run(["verify", "--store", one, "--against", other])
        #expect(different.exitCode == 1)
        #expect(different.output.hasSuffix(try Self.table(one)))
        #expect(different.errors.contains("Both are sound, and show different things"))
        let told = try await program.run(["verify", "--json", "--store", one, "--against", other])
        let against = try JSONParser.parse(Array(told.output.utf8)).object?["against"]?.object
        #expect(against?["same"] == .boolean(false))
        #expect(against?["objects"] == .integer(2))
        let values = against?["shown"]?.array?.compactMap {
            $0.object?["there"]?.object?["value"]?.string
        }
        #expect(values == ["Eve"])
    }

    @Test("Stores that have not seen the same saves, or of different models, are not compared")
    func notComparable() async throws {
        let (folder, one, other) = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try ProgramTests.makeStore(one)
        try ProgramTests.makeStore(other)
        let outcome = try await program.run(["verify", "--store", one, "--against", other])
        #expect(outcome.exitCode == 1)
        #expect(outcome.output.contains("\(one): Sound."))
        #expect(outcome.errors.contains("1 are missing in the first, 1 in the second."))
        let node = try CannedNode(status: 200, body: #"{"ok": true, "entities": []}"#)
        let model = try await program.run(["verify", "--store", one, "--against", node.url])
        #expect(model.exitCode == 8)
        #expect(model.errors.contains("have different models"))
        let missing = try await program.run(["verify", "--store", one, "--against", other + "x"])
        #expect(missing.exitCode == 1 && missing.output.isEmpty)
    }

    private static func folder() throws -> (URL, one: String, other: String) {
        let folder = try URL.makeTemporaryFolder()
        let paths = ["n1.sqlite", "n2.sqlite"].map { folder.appendingPathComponent($0).path }
        return (folder, paths[0], paths[1])
    }

    /// The output for a store without Ada's name and without Bob.
    private static func table(_ path: String) throws -> String {
        let coordinator = try PersistentStoreCoordinator(readingStoreAt: path)
        defer { coordinator.close() }
        let (rows, dot) = try coordinator.read { reader in
            let rows = try reader.objectIDs(FetchRequest("Person")).map(\.row)
            return (rows, try reader.history(afterPosition: 0, limit: 1).map(\.encoded.dot))
        }
        let wrote = try #require(dot.first)
        return """
            OBJECT\tPROPERTY\tHERE\tTHERE
            Person/\(rows[0])\tname\tAda by \(wrote)\tEve by \(wrote)
            Person/\(rows[1])\t\tonly here\t

            """
    }
}
