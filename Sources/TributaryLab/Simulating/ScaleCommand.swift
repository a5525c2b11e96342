import ArgumentParser
import Console
import Foundation
import Simulation

/// `tributary-lab scale`.
struct ScaleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scale",
        abstract: "Count what a save and a second at rest cost in clusters of several sizes.",
        discussion: """
            Each cluster runs the product's own code in virtual time, without faults. Every node has \
            saved once. All rest for ten seconds; then the first node makes --saves saves of one \
            object. The same seed always gives the same frames and bytes. Processor time is this \
            machine's. Bytes are those of frames, without what ZeroMQ and TCP add.

            tributary-lab scale
            tributary-lab scale --nodes 3,5 --saves 1000
            """)

    @Option(help: "How many nodes the clusters have, 2 to 256 each, such as 3,10.")
    var nodes = "3,10,30,100"

    @Option(help: "How many saves are measured, 1 to 10,000.")
    var saves = 200

    @Option(help: "The seed.")
    var seed: UInt64 = 1

    func run() async throws {
        let sizes = try Self.sizes(nodes)
        guard ScaleCluster.saves.contains(saves) else {
            throw CommandFailure.usage("--saves takes 1 to 10,000, not \(saves).")
        }
        for line in Self.headings { try Terminal.print(line) }
        for size in sizes {
            let (figures, processor) = try ScaleCluster.measure(
                nodes: size, saves: saves, seed: seed)
            try Terminal.print(Self.line(figures, processor))
        }
    }

    /// Reads `3,10,30`.
    static func sizes(_ text: String) throws -> [Int] {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        let sizes = parts.compactMap { Int($0) }
        guard sizes.count == parts.count, sizes.count <= 10,
            sizes.allSatisfy(ScaleCluster.nodes.contains)
        else {
            throw CommandFailure.usage(
                "--nodes takes at most 10 sizes of 2 to 256 nodes, such as 3,10, not \(text).")
        }
        return sizes
    }

    // MARK: The table

    private static let widths = [5, 8, 9, 7, 9, 7, 7, 7, 9, 7]

    static let headings = [
        "       a save where it is made   a save at another       a second at rest, a node",
        row(
            ["nodes", "frames", "bytes", "us", "frames", "bytes", "us", "frames", "bytes", "us"]),
    ]

    /// A cluster's line: means, and microseconds of a processor.
    static func line(
        _ figures: ScaleFigures, _ processor: ScaleFigures.Processor
    ) -> String {
        let saves = Double(figures.saves)
        let applied = saves * Double(figures.nodes - 1)
        let rested = Double(figures.restMilliseconds) / 1_000 * Double(figures.nodes)
        let (saver, applier, rest) = (figures.saver, figures.appliers, figures.rest)
        return row([
            "\(figures.nodes)",
            text(Double(saver.frames) / saves, 1), text(Double(saver.bytes) / saves),
            text(processor.saver / saves * 1e6),
            text(Double(applier.frames) / applied, 1), text(Double(applier.bytes) / applied),
            text(processor.appliers / applied * 1e6),
            text(Double(rest.frames) / rested, 1), text(Double(rest.bytes) / rested),
            text(processor.rest / rested * 1e6),
        ])
    }

    private static func row(_ cells: [String]) -> String {
        zip(cells, widths).map { cell, width in
            String(repeating: " ", count: max(0, width - cell.count)) + cell
        }.joined()
    }

    private static func text(_ number: Double, _ places: Int = 0) -> String {
        String(format: "%.\(places)f", number)
    }
}
