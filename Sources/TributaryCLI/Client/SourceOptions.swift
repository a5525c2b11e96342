// The flags that say whom to ask, shared by all commands that ask.

import ArgumentParser
import Client
import Console
import Coordinator
import Foundation
import Node

/// `--node`, `--token-file`, `--ca-file`, `--json`.
struct NodeOptions: ParsableArguments {
    @Option(help: "The node's address; by default TRIBUTARY_NODE, or http://127.0.0.1:7100.")
    var node: String?

    @Option(help: "A file, mode 0600, with the node's token; by default TRIBUTARY_TOKEN_FILE.")
    var tokenFile: String?

    @Option(
        help: """
            A PEM file with the roots that an https node's certificate must lead to; by default \
            TRIBUTARY_CA_FILE, or the system's.
            """, completion: .file())
    var caFile: String?

    @Flag(help: "Print exactly what the HTTP interface answers.")
    var json = false

    /// The node to ask.
    ///
    /// - Parameters:
    ///   - other: the address of another node than the one these options name.
    ///   - otherToken: the file of its token, where it is another.
    func open(other: String? = nil, otherToken: String? = nil) throws -> NodeInterface {
        // An empty setting counts as not set, so that a script can take a setting away.
        let environment = ProcessInfo.processInfo.environment.filter { !$0.value.isEmpty }
        let url = other ?? node ?? environment["TRIBUTARY_NODE"] ?? "http://127.0.0.1:7100"
        let file =
            otherToken.map { ("--against-token-file", $0) }
            ?? tokenFile.map { ("--token-file", $0) }
            ?? environment["TRIBUTARY_TOKEN_FILE"].map { ("TRIBUTARY_TOKEN_FILE", $0) }
        let roots = caFile ?? environment["TRIBUTARY_CA_FILE"]
        return try NodeInterface(
            url: url, token: try file.map(Self.token),
            trust: roots.map { .file($0) } ?? .system)
    }

    private static func token(_ key: String, _ file: String) throws -> String {
        do {
            return try NodeConfiguration.token(in: file, key: key)
        } catch { throw CommandFailure(describing: error) }
    }
}

/// Those, and `--store`.
struct SourceOptions: ParsableArguments {
    @OptionGroup var nodeOptions: NodeOptions

    @Option(help: "Read a store's file instead of asking a node.", completion: .file())
    var store: String?

    var json: Bool { nodeOptions.json }

    func validate() throws {
        if store != nil, nodeOptions.node != nil {
            throw ValidationError("--node and --store exclude each other.")
        }
    }

    /// The node, or the store's file.
    func open() throws -> any ClientInterface {
        if let store { return try StoreInterface(path: store) }
        return try nodeOptions.open()
    }

    /// Another node, if it is a URL, or another store's file.
    func open(other: String, token: String?) throws -> any ClientInterface {
        if other.contains("://") { return try nodeOptions.open(other: other, otherToken: token) }
        return try StoreInterface(path: other)
    }
}

/// `--columns`.
struct ColumnOptions: ParsableArguments {
    @Option(
        help: "The columns to show, separated by commas; by default those for which there is room.")
    var columns: String?

    /// The titles that are wanted; nil for those that fit.
    var chosen: [String]? {
        columns?.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    /// Refuses columns that there are not.
    func check(against known: [Table.Column]) throws {
        let titles = known.map { $0.title.lowercased() }
        for name in chosen ?? [] where !titles.contains(name.lowercased()) {
            throw ValidationError(
                "There is no column \(name). There are \(titles.joined(separator: ", ")).")
        }
    }
}

extension ClientInterface {
    /// Prints an answer as it came, or hands it over to be shown.
    ///
    /// - Throws: ``CommandFailure`` if standard output takes nothing any more.
    func show(
        _ answer: InterfaceAnswer, asJSON: Bool, _ render: (JSONObject, Terminal) -> [String]
    ) throws {
        if asJSON { return try Terminal.print(bytes: answer.bytes) }
        let terminal = Terminal.output
        for line in render(answer.json.object ?? JSONObject(), terminal) {
            try Terminal.print(terminal.asShown(line))
        }
    }
}
