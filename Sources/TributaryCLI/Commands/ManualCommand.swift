import ArgumentParser
import Console
import Foundation

/// `tributary manual`, for packagers and `make install`.
struct ManualCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual", abstract: "Write man pages and shell completions to a folder.",
        discussion: """
            FOLDER/man1 gets a page for each command, FOLDER/completions a file each for bash, zsh and fish.
            """, shouldDisplay: false)

    @Argument(help: "The folder; it is made where it is not there.", completion: .directory)
    var folder: String

    func run() async throws {
        let root = URL(fileURLWithPath: folder)
        do {
            try write(ManualPage.all(), to: root.appendingPathComponent("man1"))
            try write(Self.completions(), to: root.appendingPathComponent("completions"))
        } catch { throw CommandFailure(.failed, "The manual cannot be written: \(error)") }
    }

    /// The completions by the names that the shells look for.
    static func completions() -> [(name: String, text: String)] {
        [(CompletionShell.bash, "tributary"), (.zsh, "_tributary"), (.fish, "tributary.fish")].map {
            shell, name in
            (name, TributaryCommand.completionScript(for: shell))
        }
    }

    private func write(_ files: [(name: String, text: String)], to folder: URL) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, text) in files {
            try Data(text.utf8).write(to: folder.appendingPathComponent(name))
        }
    }
}

/// Man pages, made of what `--help` prints.
enum ManualPage {
    /// A page for each command that is shown, by name.
    static func all() -> [(name: String, text: String)] {
        pages(of: TributaryCommand.self, path: [])
    }

    private static func pages(
        of command: any ParsableCommand.Type, path: [String]
    ) -> [(name: String, text: String)] {
        guard command.configuration.shouldDisplay else { return [] }
        let name = command.configuration.commandName ?? ""
        let own = path + [name]
        let page = (own.joined(separator: "-") + ".1", text(of: command, own))
        return [page] + command.configuration.subcommands.flatMap { pages(of: $0, path: own) }
    }

    private static func text(of command: any ParsableCommand.Type, _ path: [String]) -> String {
        let name = path.joined(separator: "-")
        var abstract = command.configuration.abstract
        if abstract.hasSuffix(".") { abstract.removeLast() }
        let help = TributaryCommand.helpMessage(for: command, columns: 72)
        // The overview is the name's line and the description.
        let usage = help.range(of: "USAGE:").map { String(help[$0.lowerBound...]) } ?? help
        var lines = [
            ".TH \(name.uppercased()) 1 \"\" \"Tributary\" \"Tributary\"", ".SH NAME",
            "\(escaped(name)) \\- \(escaped(abstract))",
        ]
        let discussion = command.configuration.discussion
        if !discussion.isEmpty {
            lines.append(".SH DESCRIPTION")
            for paragraph in discussion.split(separator: "\n") {
                lines += [escaped(String(paragraph)), ".PP"]
            }
        }
        lines += [".SH USAGE", ".nf"]
        lines += usage.split(separator: "\n", omittingEmptySubsequences: false).map {
            escaped(String($0))
        }
        lines.append(".fi")
        if path.count == 1 {
            lines += [
                ".SH ENVIRONMENT", ".nf",
                escaped("TRIBUTARY_NODE        the node's address"),
                escaped("TRIBUTARY_TOKEN_FILE  a file with its token"),
                escaped("TRIBUTARY_CA_FILE     a PEM file with roots of trust"),
                escaped("TRIBUTARY_AUTHOR      who decides about conflicts"),
                escaped("NO_COLOR              any value: no colours"),
                escaped("COLUMNS               how wide tables may be"), ".fi",
            ]
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// A line as roff prints it as it is.
    private static func escaped(_ line: String) -> String {
        let text = line.replacing("\\", with: "\\e").replacing("-", with: "\\-")
        return text.hasPrefix(".") || text.hasPrefix("'") ? "\\&" + text : text
    }
}
