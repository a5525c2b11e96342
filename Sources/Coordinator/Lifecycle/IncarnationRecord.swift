/// The side file beside a store: which incarnation opened it last. It tells an older backup, or
/// a copy, from the store itself (DESIGN section 13).
///
/// An opening writes it twice, around the commit that makes the new incarnation N in a store
/// whose last one is M:
///
///     "N after M"  ──►  commit N  ──►  "N"
///
/// and a store that names incarnation S is this file's own where S is N, or M of an "after".
/// Why that is right after a crash at each point:
/// - before the first write: the file says M (or "M after L"), the store M. Own.
/// - between first write and commit: the file says "N after M", the store M. Own, and nobody has
///   ever written as N.
/// - between commit and second write: the file says "N after M", the store N. Own.
/// - later: the file says N. A backup from before this opening says M or less: not own.
///
/// One write, before the commit, would not do: "N after M" cannot tell a store that never came to
/// N from a backup of M. With the second write the two can only be mixed up where the process
/// died between commit and second write, and then nothing was saved as N: the opening had not
/// returned. A store found *not* to be own commits that first and writes the file after, so that
/// a crash in between finds the same again.
///
/// `generation` catches a backup made and put back within one incarnation: what a clean close
/// left on disk. It cannot be caught where the process was killed, nor can a copy of both files:
/// the backup and restore commands mark what they make, and peers tell two of one number.
struct IncarnationRecord: Hashable, Sendable {
    /// The store.
    var store: UInt64
    /// The incarnation that opened it, or is about to.
    var incarnation: UInt64
    /// The one before, while the opening is not known to be committed.
    var previous: UInt64?
    /// A generation that the store had on disk for certain.
    var generation: UInt64

    /// More is no such file: five short lines.
    private static let longest: UInt64 = 1024
    private static let title = "tributary-incarnation 1"

    static func path(_ storePath: String) -> String { storePath + "-incarnation" }

    /// Reads the record of a store; nil where there is none, or none that makes sense.
    ///
    /// - Throws: ``CoordinatorError`` (`inputOutput`) where it is there and cannot be read.
    static func read(_ storePath: String, _ files: any StoreFiles) throws -> Self? {
        let path = path(storePath)
        guard let size = files.size(of: path) else { return nil }
        guard size <= longest else { return nil }
        guard let bytes = files.read(path, from: 0, count: Int(size)) else {
            throw CoordinatorError(.inputOutput, "Cannot read \(path).")
        }
        return Self(bytes)
    }

    /// Makes it the record of a store, atomically and durably.
    func write(_ storePath: String, _ files: any StoreFiles) throws {
        try files.replace(Self.path(storePath), with: bytes)
    }

    /// Whether a store is the one that the record was last written for, and no older.
    func isOf(store: UInt64, incarnation: UInt64, generation: UInt64) -> Bool {
        self.store == store && generation >= self.generation
            && (incarnation == self.incarnation || incarnation == previous)
    }

    // MARK: Text

    var bytes: [UInt8] {
        func hexadecimal(_ number: UInt64) -> String { String(number, radix: 16) }
        var lines = [
            Self.title, "store \(hexadecimal(store))", "incarnation \(hexadecimal(incarnation))",
            "generation \(generation)",
        ]
        if let previous { lines.append("after \(hexadecimal(previous))") }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    init(store: UInt64, incarnation: UInt64, previous: UInt64? = nil, generation: UInt64) {
        self.store = store
        self.incarnation = incarnation
        self.previous = previous
        self.generation = generation
    }

    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self), text.hasSuffix("\n") else {
            return nil
        }
        let lines = text.split(separator: "\n")
        guard lines.first == Self.title[...] else { return nil }
        var numbers: [Substring: UInt64] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: " ")
            guard parts.count == 2, let key = parts.first, let value = parts.last,
                let number = UInt64(value, radix: key == "generation" ? 10 : 16),
                numbers.updateValue(number, forKey: key) == nil
            else { return nil }
        }
        guard let store = numbers["store"], let incarnation = numbers["incarnation"],
            let generation = numbers["generation"]
        else { return nil }
        self.init(
            store: store, incarnation: incarnation, previous: numbers["after"],
            generation: generation)
    }
}
