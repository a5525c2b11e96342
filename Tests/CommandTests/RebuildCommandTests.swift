import Coordinator
import Foundation
import Merge
import TestSupport
import Testing

@Suite("Rebuilding a store")
struct RebuildCommandTests {
    private var program: TestProgram { get throws { try TestProgram() } }

    /// A node's folder with its configuration and a store of two people.
    private struct Place {
        let folder: URL
        var store: String { folder.appendingPathComponent("n1.sqlite").path }
        var configuration: String { folder.appendingPathComponent("n1.yaml").path }
        var files: [String] {
            get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
        }

        func write(_ bytes: String, _ suffix: String) throws {
            try Data(bytes.utf8).write(to: URL(fileURLWithPath: store + suffix))
        }

        func read(_ suffix: String) throws -> Data {
            try Data(contentsOf: URL(fileURLWithPath: store + suffix))
        }
    }

    private static func inFolder(
        peers: Bool = true, _ body: (Place) async throws -> Void
    ) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let place = Place(folder: folder)
        let mesh = """
            mesh:
              publish: tcp://127.0.0.1:7101
              exchange: tcp://127.0.0.1:7102
              peers:
                - {node: 2, publish: "tcp://127.0.0.1:7201", exchange: "tcp://127.0.0.1:7202"}

            """
        let configuration = """
            cluster: demo
            node: 1
            store: n1.sqlite
            model: model.json

            """
        try Data((configuration + (peers ? mesh : "")).utf8)
            .write(to: URL(fileURLWithPath: place.configuration))
        try await body(place)
    }

    private func rebuild(_ place: Place, _ flags: String...) async throws -> TestProgram.Outcome {
        try await program.run(["rebuild", "--config", place.configuration] + flags)
    }

    @Test("Database and log are moved aside as they are, under a new name each time")
    func aside() async throws {
        try await Self.inFolder { place in
            try ProgramTests.makeStore(place.store)
            let record = try place.read("-incarnation")
            // What nobody can read any more is moved all the same.
            try place.write("no store", "")
            try place.write("its log", "-wal")
            try place.write("its index", "-shm")
            let outcome = try await rebuild(place)
            #expect(outcome.exitCode == 0, "\(outcome)")
            #expect(outcome.output.contains("\(place.store) is \(place.store)-damaged-1 now."))
            #expect(outcome.output.contains("Start the node") && outcome.output.contains("Lost is"))
            #expect(
                try place.files == [
                    "n1.sqlite-damaged-1", "n1.sqlite-damaged-1-shm", "n1.sqlite-damaged-1-wal",
                    "n1.sqlite-incarnation", "n1.sqlite-lock", "n1.yaml",
                ])
            #expect(try place.read("-damaged-1") == Data("no store".utf8))
            #expect(try place.read("-damaged-1-wal") == Data("its log".utf8))
            #expect(try place.read("-incarnation") == record)

            // A log alone takes a name as well.
            try place.write("another's", "-damaged-2-wal")
            try ProgramTests.makeStore(place.store)
            let again = try await rebuild(place, "--json")
            let told = try JSONParser.parse(Array(again.output.utf8)).object
            #expect(told?["aside"]?.string == place.store + "-damaged-3")
            #expect(told?["store"]?.string == place.store)
            #expect(told?["node"] == .integer(1))
            let count = try await program.run(
                ["count", "Person", "--store", place.store + "-damaged-3"])
            #expect(count.output == "2\n")
        }
    }

    @Test("A store in use is left alone")
    func inUse() async throws {
        try await Self.inFolder { place in
            let json = """
                {"entities": [{"name": "Note", "attributes": [{"name": "text", "type": "string"}]}]}
                """
            let model = try ManagedObjectModel(json: Array(json.utf8))
            let coordinator = try PersistentStoreCoordinator(
                storeAt: place.store, model: model, cluster: "demo",
                node: try #require(NodeID(1)))
            let before = try place.files
            let outcome = try await rebuild(place)
            #expect(outcome.exitCode == 6 && outcome.errors.contains("in use"), "\(outcome)")
            #expect(try place.files == before)
            coordinator.close()
            #expect(try await rebuild(place).exitCode == 0)
        }
    }

    @Test("One that was cut off is finished, and a log without its store is moved aside as well")
    func cutOff() async throws {
        try await Self.inFolder { place in
            // It had linked all, and had removed the database.
            try place.write("no store", "-damaged-1")
            try place.write("its log", "-wal")
            try FileManager.default.linkItem(
                atPath: place.store + "-wal", toPath: place.store + "-damaged-1-wal")
            let outcome = try await rebuild(place)
            #expect(outcome.exitCode == 0, "\(outcome)")
            #expect(outcome.output.contains("\(place.store)-damaged-1 now"))
            let kept = ["n1.sqlite-damaged-1", "n1.sqlite-damaged-1-wal"]
            #expect(try place.files == kept + ["n1.sqlite-lock", "n1.yaml"])

            try place.write("another's", "-wal")
            #expect(try await rebuild(place).exitCode == 0)
            #expect(try place.read("-damaged-2-wal") == Data("another's".utf8))
            #expect(try !place.files.contains("n1.sqlite-wal"))

            // A copy of a backup that was not put in place would keep the node from starting.
            try place.write("a copy", "-restored")
            #expect(try await rebuild(place).exitCode == 0)
            #expect(try place.read("-damaged-3-restored") == Data("a copy".utf8))
            #expect(try !place.files.contains("n1.sqlite-restored"))
        }
    }

    @Test("Without peers there is nobody to rebuild from, and without a store there is no need")
    func refusals() async throws {
        try await Self.inFolder(peers: false) { place in
            try ProgramTests.makeStore(place.store)
            let before = try place.files
            let outcome = try await rebuild(place)
            #expect(outcome.exitCode == 2 && outcome.errors.contains("names no peers"))
            #expect(try place.files == before)
        }
        try await Self.inFolder { place in
            let outcome = try await rebuild(place)
            #expect(outcome.exitCode == 1 && outcome.errors.contains("There is no store"))
            #expect(try place.files == ["n1.yaml"])
        }
    }
}
