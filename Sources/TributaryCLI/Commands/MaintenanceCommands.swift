// Backing up and restoring, which come with a later release.

import ArgumentParser

/// `tributary backup`.
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy a node's store to a file (comes later).")

    @Argument(help: "The file to write on the node's machine.")
    var path: String

    @OptionGroup var options: NodeOptions

    func run() async throws {
        throw CommandFailure(
            .failed,
            "This release cannot back up yet; until it can, add a node: every node holds "
                + "everything. A copied file is no backup.")
    }
}

/// `tributary restore`.
struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Make a store from a backup (comes later).")

    @Argument(help: "The backup.")
    var backup: String

    @Option(help: "The configuration of the node to restore.")
    var config: String

    func run() async throws {
        throw CommandFailure(
            .failed,
            "This release cannot restore yet. Start a new node with a new number and an empty "
                + "store: it takes everything from its peers.")
    }
}
