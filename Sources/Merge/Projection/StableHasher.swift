/// A 128-bit hash that is the same on every machine and in every process, unlike Swift's own.
///
/// Two lanes of multiply and rotate with a final avalanche (the finalizer of MurmurHash3). It
/// finds accidents, not attackers: peers are trusted once they are let in.
package struct StableHasher: Sendable {
    private var first: UInt64
    private var second: UInt64
    private var count: UInt64 = 0

    /// Begins a hash; different seeds give unrelated hashes.
    package init(seed: UInt64 = 0) {
        first = seed ^ 0x9E37_79B9_7F4A_7C15
        second = (seed &* 0xD6E8_FEB8_6659_FD93) ^ 0xC2B2_AE3D_27D4_EB4F
    }

    /// Adds 64 bits.
    @inline(__always)
    package mutating func combine(_ word: UInt64) {
        let a = (first ^ word) &* 0x87C3_7B91_1142_53D5
        first = ((a << 31) | (a >> 33)) &+ second
        let b = (second ^ (word &* 0x4CF5_AD43_2745_937F)) &* 0x9FB2_1C65_1E98_DF25
        second = ((b << 29) | (b >> 35)) ^ first
        count &+= 1
    }

    /// Adds bytes and their count.
    package mutating func combine(bytes: UnsafeRawBufferPointer) {
        var offset = 0
        while offset + 8 <= bytes.count {
            combine(
                UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            offset += 8
        }
        var tail: UInt64 = 0
        if offset < bytes.count {
            withUnsafeMutableBytes(of: &tail) {
                $0.copyMemory(from: .init(rebasing: bytes[offset...]))
            }
        }
        combine(UInt64(littleEndian: tail))
        combine(UInt64(bytes.count))
    }

    /// Adds bytes and their count.
    package mutating func combine(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { combine(bytes: $0) }
    }

    /// Adds a text's UTF-8 bytes and their count.
    package mutating func combine(_ text: String) {
        var text = text
        text.withUTF8 { combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Adds a dot, in global terms.
    package mutating func combine(_ dot: Dot) {
        combine(UInt64(dot.actor.node.rawValue))
        combine(dot.actor.incarnation)
        combine(dot.sequence)
    }

    /// Adds a value with its kind, so that 1, 1.0 and true differ.
    package mutating func combine(_ value: PropertyValue) {
        switch value {
        case .null: combine(0)
        case .boolean(let flag): combine(flag ? 2 : 1)
        case .integer(let number):
            combine(3)
            combine(UInt64(bitPattern: number))
        case .double(let number):
            combine(4)
            combine(PropertyValue.canonicalBits(number))
        case .decimal(let text):
            combine(5)
            combine(text)
        case .string(let text):
            combine(6)
            combine(text)
        case .date(let milliseconds):
            combine(7)
            combine(UInt64(bitPattern: milliseconds))
        case .binary(let bytes):
            combine(8)
            combine(bytes)
        case .uuid(let high, let low):
            combine(9)
            combine(high)
            combine(low)
        case .uri(let text):
            combine(10)
            combine(text)
        case .reference(let row):
            combine(11)
            combine(UInt64(bitPattern: row.rawValue))
        }
    }

    /// The hash of all that was added.
    package func finalize() -> (UInt64, UInt64) {
        let a = Self.avalanche(first ^ count)
        let b = Self.avalanche(second &+ count)
        return (a &+ b, b ^ ((a << 17) | (a >> 47)))
    }

    private static func avalanche(_ value: UInt64) -> UInt64 {
        var value = value
        value ^= value >> 33
        value &*= 0xFF51_AFD7_ED55_8CCD
        value ^= value >> 33
        value &*= 0xC4CE_B9FE_1A85_EC53
        value ^= value >> 33
        return value
    }
}
