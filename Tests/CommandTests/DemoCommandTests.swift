import Foundation
import TestSupport
import Testing

@testable import TributaryLab

@Suite("The demo's folder")
struct DemoCommandTests {
    private static func inFolder(_ body: (URL) async throws -> Void) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder)
    }

    @Test("What is there already is refused, and stays")
    func existing() async throws {
        let program = try TestProgram("tributary-lab")
        try await Self.inFolder { folder in
            let file = folder.appendingPathComponent("thesis")
            try Data("mine".utf8).write(to: file)
            for place in [folder, file] {
                let outcome = try await program.run(["demo", "--directory", place.path])
                #expect(outcome.exitCode == 2 && outcome.errors.contains("--directory"))
            }
            #expect(try String(contentsOf: file, encoding: .utf8) == "mine")
        }
    }

    @Test("Without the program tributary it says how to come by it, and makes nothing")
    func missingProgram() async throws {
        let program = try TestProgram("tributary-lab")
        try await Self.inFolder { folder in
            let place = folder.appendingPathComponent("demo").path
            let outcome = try await program.run(
                ["demo", "--directory", place, "--program", folder.path + "/tributary"])
            #expect(outcome.exitCode == 2 && outcome.errors.contains("--product tributary"))
            #expect(!FileManager.default.fileExists(atPath: place))
        }
    }

    @Test("Only what the demo has made goes")
    func removing() async throws {
        try await Self.inFolder { folder in
            let names = ["n1.sqlite-wal", "n3.yaml", "model.json", "note"]
            for url in [folder, folder.appendingPathComponent("new")] {
                let made = try DemoFolder(url)
                for name in names { try Data().write(to: url.appendingPathComponent(name)) }
                made.remove()
                #expect(try FileManager.default.contentsOfDirectory(atPath: url.path) == ["note"])
                try FileManager.default.removeItem(at: url.appendingPathComponent("note"))
                try DemoFolder(url).remove()
                #expect(FileManager.default.fileExists(atPath: url.path))
            }
            let fresh = folder.appendingPathComponent("fresh")
            try DemoFolder(fresh).remove()
            #expect(!FileManager.default.fileExists(atPath: fresh.path))
        }
    }

    @Test("Ended or unread it leaves no node and no folder, and minds nobody's settings")
    func ended() async throws {
        let program = try TestProgram("tributary-lab")
        let shell = TestProgram(url: URL(fileURLWithPath: "/bin/sh"))
        try await Self.inFolder { folder in
            let place = folder.appendingPathComponent("demo").path
            let demo = "\(program.url.path) demo --directory \(place)"
            // The nodes run when the demo has made the last one's log.
            let ending = """
                \(demo) >/dev/null & demo=$!
                while kill -0 $demo && [ ! -e \(place)/n3.log ]; do sleep 0.05; done
                kill -TERM $demo; wait $demo
                """
            for (script, expected) in [(ending, Int32(143)), ("\(demo) >/dev/full", 9)] {
                let outcome = try await shell.run(
                    ["-c", script], environment: ["TRIBUTARY_HTTP_LISTEN": "nonsense"],
                    seconds: 120)
                #expect(outcome.exitCode == expected, "\(outcome)")
                #expect(!FileManager.default.fileExists(atPath: place))
                let running = try FileManager.default.contentsOfDirectory(atPath: "/proc")
                    .compactMap { FileManager.default.contents(atPath: "/proc/\($0)/cmdline") }
                    .map { String(decoding: $0, as: UTF8.self) }
                #expect(!running.contains { $0.contains("\(place)/n") })
            }
        }
    }
}
