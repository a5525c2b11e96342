import Merge

/// A long transaction that comes in pieces, put together. There is one at a time.
struct Assembly: Sendable {
    /// The outcome of a piece.
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

    /// The transaction that is being put together.
    private(set) var dot: Dot?
    private var total: UInt64 = 0
    private var bytes: [UInt8] = []
    private var usedAt: UInt64 = 0

    /// How many bytes of it are here.
    var count: Int { bytes.count }

    /// Where a pull goes on, from a peer that has what the vector covers.
    func resume(from vector: VersionVector) -> Pull.Resume? {
        guard let dot, vector.contains(dot) else { return nil }
        return Pull.Resume(dot: dot, offset: UInt64(bytes.count))
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
        if let dot, dot != piece.dot, !isHere, now < usedAt + limits.outgoingMilliseconds {
            return .busy
        }
        if dot != piece.dot || total != piece.total {
            (dot, total, bytes, usedAt) = (piece.dot, piece.total, [], now)
        }
        guard piece.offset <= bytes.count,
            piece.offset + UInt64(piece.bytes.count) > bytes.count
        else { return .useless }
        bytes += piece.bytes.dropFirst(bytes.count - Int(piece.offset))
        usedAt = now
        guard UInt64(bytes.count) == total else { return .appended }
        defer { self = Assembly() }
        return .whole(bytes)
    }
}
