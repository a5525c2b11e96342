import ArgumentParser
import Console
import Coordinator
import Foundation
import Node

/// `tributary restore`.
struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Put a backup in the place of a stopped node's store.",
        discussion: """
            The node takes no saves after its start until it has caught up with another member; \
            its own saves since the backup come back from there. A store that was in the place \
            stays beside it, as STORE-before-restore with its -wal. A backup that does not hold what was written \
            is refused.
            """)

    @Argument(help: "The backup.", completion: .file())
    var backup: String

    @Option(help: "The configuration of the node to restore, YAML.", completion: .file())
    var config: String

    @Flag(help: "Replace the store that is there.")
    var replace = false

    @Flag(help: "Take the backup as it is, without looking whether it holds what was written.")
    var unchecked = false

    @Flag(help: "Print a JSON object.")
    var json = false

    func run() async throws {
        NewFiles.keepToOwner()
        let configuration = try NodeConfiguration.read(
            file: config, environment: ProcessInfo.processInfo.environment)
        // Before it is tried, because the coordinator knows nothing of flags.
        let store = configuration.store
        guard replace || !FileManager.default.fileExists(atPath: store) else {
            throw CommandFailure(
                .refused,
                "\(store) is there already. With --replace the backup takes its place, and it is kept "
                    + "as \(store)-before-restore.")
        }
        if !unchecked { try check() }
        do {
            let restored = try StoreBackup.restore(
                backup, to: configuration.store, cluster: configuration.cluster,
                node: configuration.node, isReplacing: replace)
            let kept = Self.kept(beside: restored.path)
            if json {
                var told = restored.json
                told["kept"] = .array(kept.map { .string($0) })
                return try Terminal.print(bytes: JSONWriter.bytes(of: .object(told)))
            }
            try Terminal.print(
                "\(restored.path) holds generation \(restored.generation) of node \(restored.node). "
                    + "Start the node: it takes saves again once it has caught up.")
            guard !kept.isEmpty else { return }
            try Terminal.print(
                "What was there is kept: \(kept.joined(separator: ", ")). Keep these together; move all of "
                    + "them away before the next restore.")
        } catch let error as CoordinatorError where error.code == .storeDamaged {
            // Of the backup: the store, which may be sound, was not touched.
            let message = CommandFailure.sentence(error.message)
            throw CommandFailure(
                .storeDamaged, "\(message) Take another backup; the store is as it was.")
        } catch { throw CommandFailure(describing: error) }
    }

    /// The files under which a store is kept whose place a backup has taken.
    private static func kept(beside store: String) -> [String] {
        ["", "-wal", "-shm"].map { "\(store)-before-restore\($0)" }
            .filter { FileManager.default.fileExists(atPath: $0) }
    }

    /// A medium may have changed bytes, which SQLite does not see.
    private func check() throws {
        // Restoring tells what is wrong with a backup that cannot be read.
        guard let store = try? PersistentStoreCoordinator(readingStoreAt: backup) else { return }
        defer { store.close() }
        let report: VerificationReport
        do { report = try store.verify() } catch { throw CommandFailure(describing: error) }
        guard !report.isOK else { return }
        let first = report.differences.first.map { ": \($0)" } ?? ""
        throw CommandFailure(
            .storeDamaged,
            "\(backup) does not hold what was written\(first). `tributary verify --store \(backup)` lists "
                + "all of it. Take another backup; if there is none, --unchecked takes it as it is, "
                + "and `tributary rebuild` has the other nodes' data instead.")
    }
}
