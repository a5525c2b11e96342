import ArgumentParser
import Console
import Coordinator
import Foundation
import Merge
import Node

/// `tributary rebuild`.
struct RebuildCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebuild",
        abstract: "Move a stopped node's damaged store aside, to be copied again from its peers.",
        discussion: """
            The node's next start takes all data from the other members, by their logs or as a \
            copy of a member's store, and saves again once it has all that one of them has. What \
            this node had acknowledged and no other node has is lost: it is nowhere but in the \
            files moved aside, STORE-damaged-1, -2 and so on, as far as they can be read. \
            STORE-incarnation stays: it tells the node which numbers it must not use again.
            """)

    @Option(help: "The configuration of the node to rebuild, YAML.", completion: .file())
    var config: String

    @Flag(help: "Print a JSON object.")
    var json = false

    func run() async throws {
        NewFiles.keepToOwner()
        let configuration = try NodeConfiguration.read(
            file: config, environment: ProcessInfo.processInfo.environment)
        let peers = configuration.mesh?.peers ?? []
        guard !peers.isEmpty else {
            throw CommandFailure.usage(
                "\(config) names no peers, so that there is nobody to rebuild the store from. "
                    + "Restore a backup with `tributary restore`.")
        }
        let aside: String
        do {
            aside = try StoreFolder(store: configuration.store).moveAside()
        } catch { throw CommandFailure(describing: error) }
        let nodes = peers.map(\.node.description).joined(separator: ", ")
        if json {
            return try Terminal.print(
                bytes: JSONWriter.bytes(of: [
                    "store": .string(configuration.store), "aside": .string(aside),
                    "node": .integer(Int64(configuration.node.rawValue)),
                    "peers": .array(peers.map { .integer(Int64($0.node.rawValue)) }),
                ]))
        }
        try Terminal.print(
            """
            \(configuration.store) is \(aside) now.
            Start the node: it takes all data from the other members (the configuration names \
            \(nodes)), and saves again once it has all that one of them has.
            Lost is what it had acknowledged and none of them has. Once you have no more questions \
            to \(aside), remove it with its -wal and -shm.
            """)
    }
}

/// The files of a store that no process has open.
struct StoreFolder {
    /// The database's path.
    let store: String
    private let files = SystemFiles()

    /// The files of one store, in the order in which they go: the copy of a backup that never took
    /// its place, which would keep a node without a store from starting, and SQLite's files, the
    /// database itself first.
    private static let suffixes = ["-restored", "", "-wal", "-shm"]

    init(store: String) { self.store = files.resolved(store) }

    /// Gives the database and its log other names in the same folder, durably, so that the next
    /// opening makes a new store. Neither is read, however damaged they are.
    ///
    /// A database without its log is another state, and may be taken for whole. So all have their
    /// second names before one loses its first, and the database loses that before its log: wherever
    /// this is cut off, there is either the store as it was, or none and all of it aside.
    ///
    /// One that was cut off so is finished under the same name.
    ///
    /// - Returns: the database's new name, `STORE-damaged-1`, or the first such that is free.
    /// - Throws: ``CommandFailure`` where there is no store; ``CoordinatorError``: `storeInUse`
    ///   where a process has it, `diskFull` or `inputOutput`.
    func moveAside() throws -> String {
        let hasDatabase = files.size(of: store) != nil
        // The file that an opening takes for a part of a store.
        guard
            hasDatabase || files.size(of: store + "-wal") ?? 0 > 0
                || files.size(of: store + "-restored") != nil
        else {
            throw CommandFailure(
                .failed,
                "There is no store \(store), so that nothing is to be moved aside: start the node.")
        }
        let lock = try files.lock(storePath: store)
        defer { lock.release() }
        let aside = hasDatabase ? freeName() : cutOffName() ?? freeName()
        let found = Self.suffixes.filter { files.size(of: store + $0) != nil }
        for suffix in found where files.size(of: aside + suffix) == nil {
            try files.link(store + suffix, as: aside + suffix)
        }
        for suffix in found { try files.remove(store + suffix) }
        return aside
    }

    private func freeName() -> String {
        var number = 1
        while isTaken(number) { number += 1 }
        return name(number)
    }

    /// The name that the log has already.
    private func cutOffName() -> String? {
        var number = 1
        while isTaken(number) {
            if files.areOne(store + "-wal", name(number) + "-wal") { return name(number) }
            number += 1
        }
        return nil
    }

    private func isTaken(_ number: Int) -> Bool {
        Self.suffixes.contains { files.size(of: name(number) + $0) != nil }
    }

    private func name(_ number: Int) -> String { "\(store)-damaged-\(number)" }
}
