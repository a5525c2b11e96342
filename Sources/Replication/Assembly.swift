import Merge

/// A long transaction that comes in pieces, put together. There is one at a time.
struct Assembly: Sendable {
    /// What became of a piece.
    enum Outcome: Hashable, Sendable {
        /// Another long transaction is being put together; there is memory for one.
        case busy
        /// It does not follow what is there, or brings nothing new.
        case useless
        /// It was appended.
        case appended
        /// It was the last: the transaction's bytes, which are not here any more.
        case whole([UInt8])
    }

    private struct Begun: Sendable {
        var dot: Dot
        var total: UInt64
        var bytes: [UInt8] = []
        var usedAt: UInt64
    }

    private var begun: Begun?

    /// The transaction that is being put together.
    var dot: Dot? { begun?.dot }

    /// How many bytes of it are here.
    var count: Int { begun?.bytes.count ?? 0 }

    /// Where a pull goes on, from a peer that has what the vector covers.
    func resume(from vector: VersionVector) -> Pull.Resume? {
        guard let begun, vector.contains(begun.dot) else { return nil }
        return Pull.Resume(dot: begun.dot, offset: UInt64(begun.bytes.count))
    }

    /// Takes in a piece.
    ///
    /// Two who were asked may give the same part, and one what another was asked for before: what
    /// is known of it is left out, and what is put together already is never given up for it.
    ///
    /// - Parameter isHere: whether the transaction that is being put together has come whole.
    mutating func add(
        _ piece: Piece, isHere: Bool, now: UInt64, limits: Limits
    ) -> Outcome {
        if let begun, begun.dot != piece.dot, !isHere,
            now < begun.usedAt + limits.outgoingMilliseconds
        {
            return .busy
        }
        if begun?.dot != piece.dot || begun?.total != piece.total {
            begun = Begun(dot: piece.dot, total: piece.total, usedAt: now)
        }
        guard var current = begun, piece.offset <= current.bytes.count,
            piece.offset + UInt64(piece.bytes.count) > current.bytes.count
        else { return .useless }
        begun = nil  // so that the bytes are appended in place
        current.bytes += piece.bytes.dropFirst(current.bytes.count - Int(piece.offset))
        current.usedAt = now
        if UInt64(current.bytes.count) == current.total { return .whole(current.bytes) }
        begun = current
        return .appended
    }
}
