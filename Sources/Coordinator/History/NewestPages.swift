package import Merge

/// Reads the log backwards, transaction by transaction, within one read.
package struct NewestPages {
    /// How many are read at once.
    private static let page = 64

    /// The position before which the next one is looked for.
    package private(set) var position: UInt64
    /// Whether the beginning of the log was found.
    package private(set) var isAtEnd = false
    private let name: String?
    private let reader: StoreReader
    private var waiting: ArraySlice<LoggedTransaction> = []

    /// - Parameters:
    ///   - position: `UInt64.max` to begin with the newest.
    ///   - filter: where the index of history serves it, what cannot be wanted is passed by.
    package init(before position: UInt64, _ filter: ResolvedHistoryFilter, _ reader: StoreReader) {
        self.position = position
        self.reader = reader
        name = filter.indexName
    }

    /// The next one; nil at the end.
    package mutating func next() throws -> EncodedTransaction? {
        if waiting.isEmpty {
            try reader.checkGoingOn()
            let indexed = try name.flatMap { try reader.hasHistoryIndex() ? $0 : nil }
            waiting = try reader.history(
                beforePosition: position, limit: Self.page, byteLimit: 4 << 20, named: indexed)[...]
        }
        guard let logged = waiting.popFirst() else {
            isAtEnd = true
            return nil
        }
        position = logged.position
        return logged.encoded
    }
}
