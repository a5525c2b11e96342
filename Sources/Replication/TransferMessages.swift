package import Merge

/// A copy of a donor's store: its number, its length and its hash.
package struct TransferCopy: Hashable, Sendable {
    /// Its number, drawn when it was made; never 0.
    package var number: UInt64
    /// Its length in bytes.
    package var total: UInt64
    /// The hash of its bytes, 16 bytes.
    package var digest: [UInt8]

    /// Describes a copy.
    package init(number: UInt64, total: UInt64, digest: [UInt8]) {
        self.number = number
        self.total = total
        self.digest = digest
    }
}

/// A wish for a part of a copy of the receiver's store. One ``TransferPart`` comes.
package struct TransferPull: Hashable, Sendable {
    /// Repeated in the answer.
    package var id: UInt64
    /// The copy that the sender has the beginning of; 0 for whichever there is.
    package var number: UInt64
    /// How much of it the sender has.
    package var offset: UInt64
    /// How many bytes the answer may carry.
    package var credit: UInt64
    /// The vector that sender and receiver both have: a copy without it is of no use.
    package var vector: VersionVector

    /// Composes a wish.
    package init(
        id: UInt64, number: UInt64, offset: UInt64, credit: UInt64,
        vector: VersionVector = VersionVector()
    ) {
        self.vector = vector
        self.id = id
        self.number = number
        self.offset = offset
        self.credit = credit
    }
}

/// A part of a copy of the sender's store, or the word that it can give none now.
package struct TransferPart: Hashable, Sendable {
    /// The wish's number.
    package var id: UInt64
    /// Which copy; nil where none can be given.
    package var copy: TransferCopy?
    /// Where the part begins.
    package var offset: UInt64
    /// The part; empty at the copy's end alone.
    package var bytes: [UInt8]

    /// Composes a part.
    package init(id: UInt64, copy: TransferCopy?, offset: UInt64 = 0, bytes: [UInt8] = []) {
        self.id = id
        self.copy = copy
        self.offset = offset
        self.bytes = bytes
    }
}
