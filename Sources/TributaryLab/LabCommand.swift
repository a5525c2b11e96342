// The laboratory: what shows and proves the product, and no node needs.

import ArgumentParser
import Console
import Foundation

/// `tributary-lab`.
@main
struct LabCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tributary-lab",
        abstract: "The laboratory of tributary: a demo, the simulator, and what many nodes cost.",
        discussion: """
            Exit codes: 0 ok, 1 failed or a violation found, 2 usage, 9 no space.
            """,
        subcommands: [DemoCommand.self, SimulateCommand.self, ScaleCommand.self])

    static func main() async {
        Glibc.exit(await Program.run(Self.self, Array(CommandLine.arguments.dropFirst())))
    }
}
