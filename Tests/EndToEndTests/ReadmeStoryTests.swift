import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// The commands of README, followed word by word.
    @Suite("README's three nodes") struct ReadmeTests {}
}

extension EndToEnd.ReadmeTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardized

    /// The commands of the section, each with the output that it shows.
    private static func story() throws -> [(command: String, output: [String])] {
        let text = try String(
            contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let section = try #require(text.range(of: "## Three nodes and a conflict"))
        let rest = text[section.upperBound...]
        let begin = try #require(rest.range(of: "```console\n"))
        let end = try #require(rest[begin.upperBound...].range(of: "```"))
        var story: [(command: String, output: [String])] = []
        for line in rest[begin.upperBound..<end.lowerBound].split(separator: "\n") {
            if line.hasPrefix("$ ") {
                story.append((String(line.dropFirst(2)), []))
            } else {
                story[story.count - 1].output.append(String(line))
            }
        }
        return story
    }

    /// A line of a table by its cells, without what differs from run to run: names, times and how much
    /// room a column has.
    private static func cells(_ line: String) -> [String] {
        line.replacing(/\d\d-\d\d \d\d:\d\d/, with: "TIME")
            .replacing(/[0-9a-f]{6,}/, with: "NAME").split(separator: " ").map(String.init)
    }

    @Test("Its commands make a conflict, show it as README does, and decide it")
    func story() async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try FileManager.default.copyItem(
            at: Self.root.appendingPathComponent("deploy"),
            to: folder.appendingPathComponent("deploy"))
        let program = try BuiltProgram.find().deletingLastPathComponent().path
        let story = try Self.story()
        #expect(story.count >= 8 && story[0].command.hasPrefix("make build"))
        var script = """
            set -e
            export PATH="\(program):$PATH" LOCAL_CLUSTER_PORT=\(try Loopback.freePorts(1)[0])
            export XDG_STATE_HOME="$PWD/state" USER=reader NO_COLOR=1
            trap 'deploy/local-cluster stop >/dev/null 2>&1 || true' EXIT

            """
        for (index, step) in story.enumerated().dropFirst() {
            script += "echo '== \(index)'\n\(step.command)\n"
            // What is healed is not known everywhere at once.
            if step.command.contains("heal") {
                script += """
                    for each in $(seq 100); do
                        [ "$(n1 conflicts list | wc -l)" -gt 1 ] && break
                        sleep 0.3
                    done

                    """
            }
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", script]
        process.currentDirectoryURL = folder
        let output = folder.appendingPathComponent("output")
        try Data().write(to: output)
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        process.standardInput = FileHandle.nullDevice
        try process.run()
        defer { if process.isRunning { process.terminate() } }
        try await eventually("the commands had ended", within: .seconds(240)) { !process.isRunning }
        let text = try String(contentsOf: output, encoding: .utf8)
        #expect(process.terminationStatus == 0, "\(text)")
        for (index, step) in story.enumerated() where !step.output.isEmpty {
            let part = try #require(text.components(separatedBy: "== \(index)\n").last)
            let printed = part.split(separator: "\n").map { String($0).replacing("\t", with: " ") }
            // Elsewhere than on a terminal a table has all columns, so that a line begins alike.
            for line in step.output {
                let wanted = Self.cells(line).prefix(6)
                #expect(
                    printed.contains { Self.cells($0).starts(with: wanted) },
                    "\(line)\nis not in\n\(part)")
            }
        }
    }
}
