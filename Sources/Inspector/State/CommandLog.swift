// What was asked of the node, as the commands that do the same.

/// The latest commands and how they ended.
package struct CommandLog: Sendable {
    /// One of them.
    package struct Entry: Hashable, Sendable {
        package let number: Int
        package let milliseconds: Int64
        package let command: String
        /// How it ended; nil while it is under way.
        package fileprivate(set) var outcome: String?
        /// Whether it did what it should.
        package fileprivate(set) var isGood: Bool
    }

    /// Older entries are dropped.
    package static let maximum = 1_000

    /// The oldest first.
    package private(set) var entries: [Entry] = []
    private var next = 1

    /// An empty log.
    package init() {}

    /// Begins an entry, and gives its number.
    package mutating func begin(_ command: String, at milliseconds: Int64) -> Int {
        if entries.count >= Self.maximum { entries.removeFirst(Self.maximum / 10) }
        entries.append(
            Entry(
                number: next, milliseconds: milliseconds, command: command, outcome: nil,
                isGood: true))
        next += 1
        return next - 1
    }

    /// Ends an entry.
    package mutating func end(_ number: Int?, _ outcome: String, isGood: Bool = true) {
        guard let number, let index = entries.lastIndex(where: { $0.number == number }) else {
            return
        }
        entries[index].outcome = outcome
        entries[index].isGood = isGood
    }
}
