import ArgumentParser
import Console
import Foundation

/// `tributary-lab demo`: shows the whole path on real input: three nodes, a partition, conflicts, a resolution.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Start three nodes, cut them apart, let them write over each other, and heal.",
        discussion: """
            Everything runs on this machine's loopback interface in a temporary folder, takes \
            under a minute and leaves nothing running.
            """)

    @Option(
        help: "The folder to work in, a new or an empty one; a temporary one by default.",
        completion: .directory)
    var directory: String?

    @Option(
        help: "The program tributary to run; by default the one beside this program.",
        completion: .file())
    var program: String?

    @Flag(help: "Keep the folder with the three stores, to look at them afterwards.")
    var keep = false

    func run() async throws {
        let begin = ContinuousClock().now
        let program = try DemoProgram(path: program)
        // Before anything is made that is to be put away.
        EndingSignals.trap()
        let folder = try DemoFolder(
            URL(
                fileURLWithPath: directory
                    ?? NSTemporaryDirectory()
                    + "tributary-demo-\(ProcessInfo.processInfo.processIdentifier)"))
        var failure: (any Error)?
        do {
            try await EndingSignals.cancelling { try await Self.tell(in: folder, program) }
        } catch { failure = error }
        // A failure of the demo itself is worth a look at what there is; where it was ended, or
        // nobody reads what it says, nobody looks.
        let isKept = keep || failure is DemoError
        if !isKept { folder.remove() }
        switch failure {
        case nil:
            if isKept { try Terminal.print(Self.advice(folder)) }
            let elapsed = (ContinuousClock().now - begin).components.seconds
            try Terminal.print("\nDone in \(elapsed) s; all three nodes are stopped.")
        case let received as EndingSignals.Received: throw ExitCode(128 + received.signal)
        case let failure as CommandFailure: throw failure
        case let failure?:
            Terminal.complain("The demo failed: \(failure)\n")
            if isKept { Terminal.complain(Self.advice(folder) + "\n") }
            throw ExitCode(1)
        }
    }

    /// Starts the nodes, tells the story and stops the nodes, whatever happens.
    private static func tell(in folder: DemoFolder, _ program: DemoProgram) async throws {
        let cluster = try DemoCluster(folder: folder.url, program: program)
        let story = DemoStory(
            cluster: cluster, data: try DemoData(folder: folder.url),
            isColoured: Terminal.output.style.isEnabled)
        let result: Result<Void, any Error>
        do {
            try await cluster.start()
            try await story.tell()
            result = .success(())
        } catch { result = .failure(error) }
        await cluster.stop()
        try result.get()
    }

    private static func advice(_ folder: DemoFolder) -> String {
        "\nThe stores and logs are in \(folder.url.path).\n"
            + "Look into one: tributary conflicts list --store \(folder.url.path)/n1.sqlite"
    }
}
