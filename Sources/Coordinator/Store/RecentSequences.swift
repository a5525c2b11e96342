import Merge

/// The newest sequences of actors, by their numbers, that `_actor` does not have yet.
///
/// Every commit changes some actor's sequence. Were it written to the actor's row, that would be a page of
/// the write-ahead log more for each commit. So it is kept in `_state`, which every commit writes, and
/// goes to the rows when there are many.
struct RecentSequences: Hashable, Sendable {
    /// The most actors, which keeps the text under 2 KiB.
    static let limit = 64

    private(set) var sequences: [Int: UInt64] = [:]

    var isFull: Bool { sequences.count > Self.limit }

    init() {}

    /// Reads what ``text`` gives; nil where it is something else.
    init?(_ text: String) {
        for entry in text.utf8.split(separator: UInt8(ascii: " ")) {
            let parts = entry.split(separator: UInt8(ascii: ":"))
            guard parts.count == 2, let code = Int(Substring(parts[0])),
                let sequence = UInt64(Substring(parts[1]))
            else { return nil }
            sequences[code] = sequence
        }
    }

    /// An actor's number and sequence, for each, lowest first: `1:17 3:5`.
    var text: String {
        sequences.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value)" }
            .joined(separator: " ")
    }

    mutating func note(_ sequence: UInt64, of code: Int) { sequences[code] = sequence }
}
