/// Takes an input apart; where it ends, zeros and nothing follow.
struct InputReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position >= bytes.count }

    mutating func byte() -> UInt8 {
        guard position < bytes.count else { return 0 }
        defer { position += 1 }
        return bytes[position]
    }

    mutating func number(bytes count: Int) -> UInt64 {
        var result: UInt64 = 0
        for _ in 0..<count { result = result << 8 | UInt64(byte()) }
        return result
    }

    /// So many bytes, or what is left.
    mutating func take(_ count: Int) -> [UInt8] {
        let end = min(position + count, bytes.count)
        defer { position = end }
        return Array(bytes[position..<end])
    }

    /// A part with its length in two bytes before it.
    mutating func part() -> [UInt8] { take(Int(number(bytes: 2))) }

    mutating func rest() -> [UInt8] { take(bytes.count) }

    /// Writes a part as ``part()`` reads it.
    static func part(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8(truncatingIfNeeded: bytes.count >> 8), UInt8(truncatingIfNeeded: bytes.count)]
            + bytes
    }
}
