import Console
import Coordinator
import Foundation

/// The conflicts that the last list showed, so that a person can name one by its number in it.
///
/// They are kept in a file of the user's, apart for each node and store. What cannot be written is not
/// there the next time, and nothing else comes of it.
struct RecentConflicts {
    /// The most that are kept: a longer list is nothing to count in.
    static let most = 1_000

    /// A conflict as it was listed.
    struct Entry: Hashable {
        let id: String
        /// The transactions of its sides then: what the person has seen.
        let sides: [String]
    }

    let file: URL?

    /// - Parameters:
    ///   - source: the node's address or the store's file.
    ///   - environment: says where a user's state is kept.
    init(of source: String, _ environment: [String: String] = ProcessInfo.processInfo.environment) {
        let home = environment["HOME"].flatMap { $0.isEmpty ? nil : $0 + "/.local/state" }
        guard
            let folder = environment["XDG_STATE_HOME"].flatMap({ $0.hasPrefix("/") ? $0 : nil })
                ?? home
        else {
            file = nil
            return
        }
        let name = RequestPath.encode(source).suffix(200)
        file = URL(fileURLWithPath: folder).appendingPathComponent("tributary/conflicts-\(name)")
    }

    /// Keeps a list in place of the one before.
    func keep(_ conflicts: [JSONObject]) {
        guard let file else { return }
        let lines = conflicts.prefix(Self.most).map { conflict -> String in
            let sides = (conflict["sides"]?.array ?? []).compactMap { $0.object?["dot"]?.string }
            return ([conflict["id"]?.string ?? ""] + sides).joined(separator: "\t")
        }
        try? FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        try? Data(lines.joined(separator: "\n").utf8).write(to: file, options: .atomic)
    }

    /// The conflict of a number, from 1; nil where the last list had none.
    subscript(number: Int) -> Entry? {
        guard let file, let data = try? Data(contentsOf: file), number >= 1 else { return nil }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
        guard number <= lines.count else { return nil }
        let parts = lines[number - 1].split(separator: "\t").map(String.init)
        return parts.first.map { Entry(id: $0, sides: Array(parts.dropFirst())) }
    }

    /// What a person has named: a number of the last list, or an ID or the beginning of one.
    ///
    /// - Throws: ``CommandFailure`` where the last list has no such number.
    func entry(named text: String) throws -> Entry {
        guard text.utf8.count < ConflictNumber.digits, let number = Int(text) else {
            return Entry(id: text, sides: [])
        }
        if let entry = self[number] { return entry }
        throw CommandFailure.usage(
            "The last list had no conflict \(number). Run `tributary conflicts list`, and take a number "
                + "or an ID of it.")
    }
}

/// Which numbers are those of a list: one of four digits or more may be the beginning of a short ID.
private enum ConflictNumber {
    static let digits = 4
}
