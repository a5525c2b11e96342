import ArgumentParser
import Console
import Foundation
import Inspector

/// `tributary inspect`.
struct InspectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Look at conflicts and nodes in the terminal, and decide.",
        discussion: """
            Shows all conflicts as they come, what each side wrote and why one is seen, and decides \
            by a key. Press ? for all keys. The log (l) has the commands that do the same. With \
            --store nothing can be decided. NO_COLOR turns colours off.
            """)

    @Option(help: "Who decides, as history tells it; by default USER of the environment.")
    var author: String?

    @Flag(help: "Let the mouse choose rows. Selecting text with it then needs the Shift key.")
    var mouse = false

    @OptionGroup var source: SourceOptions

    func validate() throws {
        if source.json { throw ValidationError("--json is for commands that print.") }
    }

    func run() async throws {
        let environment = ProcessInfo.processInfo.environment
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1, let kind = environment["TERM"],
            !kind.isEmpty, kind != "dumb"
        else {
            throw CommandFailure.usage(
                "tributary inspect needs a terminal that can place its cursor. Elsewhere use "
                    + "`tributary conflicts list`, `show` and `resolve`.")
        }
        let interface = try source.open()
        let user = author ?? environment["USER"]
        let inspected = InspectorSource(
            name: interface.name, flags: flags, isReadOnly: source.store != nil,
            author: user.flatMap { $0.isEmpty ? nil : $0 })
        let session = try InspectorSession(
            interface: interface, source: inspected,
            isColoured: environment["NO_COLOR"].map(\.isEmpty) ?? true,
            isASCII: !Self.isUTF8(environment), startsWithMouse: mouse)
        do {
            try await session.run()
        } catch {
            await interface.close()
            throw error
        }
        await interface.close()
    }

    /// The flags by which another command asks the same.
    private var flags: [String] {
        var flags: [String] = []
        if let store = source.store { flags += ["--store", store] }
        if let node = source.nodeOptions.node { flags += ["--node", node] }
        if let file = source.nodeOptions.tokenFile { flags += ["--token-file", file] }
        if let file = source.nodeOptions.caFile { flags += ["--ca-file", file] }
        return flags
    }

    /// Whether the locale is one of UTF-8, by the variables that say so in their order.
    static func isUTF8(_ environment: [String: String]) -> Bool {
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            guard let value = environment[name]?.lowercased(), !value.isEmpty else { continue }
            return value.contains("utf-8") || value.contains("utf8")
        }
        return false
    }
}
