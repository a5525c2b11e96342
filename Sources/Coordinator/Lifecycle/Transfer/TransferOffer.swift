package import Merge

/// A copy of a store that another node offers: its name, its length and its hash.
package struct TransferOffer: Hashable, Sendable {
    /// The node whose store was copied.
    package var donor: NodeID
    /// The copy's number, drawn when it was made; never 0.
    package var number: UInt64
    /// The copy's length in bytes.
    package var total: UInt64
    /// The hash of its bytes, 16 bytes.
    package var digest: [UInt8]

    /// Describes a copy.
    package init(donor: NodeID, number: UInt64, total: UInt64, digest: [UInt8]) {
        self.donor = donor
        self.number = number
        self.total = total
        self.digest = digest
    }

    private static let title = "tributary-transfer 1"

    /// As it is kept beside what has come of the copy.
    var bytes: [UInt8] {
        let digits = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return Array(
            """
            \(Self.title)
            donor \(donor)
            number \(number)
            total \(total)
            digest \(digits)

            """.utf8)
    }

    /// Reads what ``bytes`` gives; nil where it is anything else.
    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self), text.hasSuffix("\n") else {
            return nil
        }
        let lines = text.split(separator: "\n")
        guard lines.count == 5, lines.first == Self.title[...] else { return nil }
        func value(_ line: Int, _ key: String) -> Substring? {
            let parts = lines[line].split(separator: " ")
            return parts.count == 2 && parts.first == key[...] ? parts.last : nil
        }
        guard let donor = value(1, "donor").flatMap({ Int64($0) }).flatMap({ NodeID($0) }),
            let number = value(2, "number").flatMap({ UInt64($0) }), number > 0,
            let total = value(3, "total").flatMap({ UInt64($0) }),
            let digits = value(4, "digest").map({ Array($0.utf8) }), digits.count == 32
        else { return nil }
        var digest: [UInt8] = []
        for index in stride(from: 0, to: 32, by: 2) {
            let pair = String(decoding: digits[index...(index + 1)], as: UTF8.self)
            guard let byte = UInt8(pair, radix: 16) else { return nil }
            digest.append(byte)
        }
        self.init(donor: donor, number: number, total: total, digest: digest)
    }

    /// The hash of a file's bytes, read a piece at a time.
    ///
    /// - Throws: ``CoordinatorError`` (`inputOutput`) where it cannot be read.
    static func digest(of path: String, _ files: any StoreFiles) throws -> [UInt8] {
        var hasher = StableHasher(seed: 31)
        var offset: UInt64 = 0
        while true {
            guard let piece = files.read(path, from: offset, count: 1 << 20) else {
                throw CoordinatorError(.inputOutput, "Cannot read \(path).")
            }
            hasher.combine(piece)
            if piece.count < 1 << 20 { break }
            offset += UInt64(piece.count)
        }
        let (first, second) = hasher.finalize()
        return [first, second].flatMap { lane in
            withUnsafeBytes(of: lane.bigEndian) { Array($0) }
        }
    }
}
