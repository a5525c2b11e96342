import ArgumentParser
import Foundation

/// Shows the whole path on real input: three nodes, a partition, conflicts, a resolution.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Start three nodes, cut them apart, let them write over each other, and heal.",
        discussion: """
            Everything runs on this machine's loopback interface in a temporary folder, takes \
            under a minute and leaves nothing running.
            """)

    @Option(help: "The folder to work in; a temporary one by default.")
    var directory: String?

    @Flag(help: "Keep the folder with the three stores, to look at them afterwards.")
    var keep = false

    func run() async throws {
        let folder = URL(
            fileURLWithPath: directory
                ?? NSTemporaryDirectory()
                + "tributary-demo-\(ProcessInfo.processInfo.processIdentifier)")
        let begin = ContinuousClock().now
        let cluster = try DemoCluster(folder: folder)
        let story = DemoStory(
            cluster: cluster, data: try DemoData(folder: folder),
            isColoured: isatty(STDOUT_FILENO) == 1
                && ProcessInfo.processInfo.environment["NO_COLOR"] == nil)
        var failure: (any Error)?
        do {
            try await cluster.start()
            try await story.tell()
        } catch { failure = error }
        await cluster.stop()
        if keep || failure != nil {
            print("\nThe stores and logs are in \(folder.path).")
            print("Look into one: tributary conflicts list --store \(folder.path)/n1.sqlite")
        } else {
            try? FileManager.default.removeItem(at: folder)
        }
        if let failure {
            FileHandle.standardError.write(Data("The demo failed: \(failure)\n".utf8))
            throw ExitCode(1)
        }
        let elapsed = (ContinuousClock().now - begin).components.seconds
        print("\nDone in \(elapsed) s; all three nodes are stopped.")
    }
}
