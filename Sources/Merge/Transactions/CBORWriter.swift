/// Writes deterministic CBOR (RFC 8949, section 4.2): shortest heads, definite lengths.
package struct CBORWriter: Sendable {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []

    /// Begins with nothing.
    ///
    /// - Parameter capacity: bytes to set aside at once.
    package init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    /// Writes behind bytes that are there already.
    package static func append(
        to output: inout [UInt8], _ write: (inout CBORWriter) -> Void
    ) {
        var writer = CBORWriter()
        swap(&writer.bytes, &output)
        write(&writer)
        swap(&writer.bytes, &output)
    }

    /// The tags of values that plain CBOR has no kind for.
    enum Tag {
        static let uri: UInt64 = 32
        static let uuid: UInt64 = 37
        static let date: UInt64 = 40300
        static let decimal: UInt64 = 40301
        static let reference: UInt64 = 40302
    }

    @inline(__always)
    private mutating func head(_ major: UInt8, _ argument: UInt64) {
        let top = major << 5
        if argument < 24 {
            bytes.append(top | UInt8(argument))
        } else if argument <= 0xFF {
            bytes.append(top | 24)
            bytes.append(UInt8(argument))
        } else if argument <= 0xFFFF {
            bytes.append(top | 25)
            append(UInt16(argument))
        } else if argument <= 0xFFFF_FFFF {
            bytes.append(top | 26)
            append(UInt32(argument))
        } else {
            bytes.append(top | 27)
            append(argument)
        }
    }

    @inline(__always)
    private mutating func append<Word: FixedWidthInteger>(_ word: Word) {
        withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// Writes an unsigned integer.
    package mutating func write(_ number: UInt64) { head(0, number) }

    /// Writes a signed integer.
    package mutating func write(_ number: Int64) {
        if number >= 0 { head(0, UInt64(number)) } else { head(1, UInt64(-1 - number)) }
    }

    /// Writes text.
    package mutating func write(_ text: String) {
        var text = text
        text.withUTF8 {
            head(3, UInt64($0.count))
            bytes.append(contentsOf: $0)
        }
    }

    /// Writes text or null.
    package mutating func write(_ text: String?) {
        if let text { write(text) } else { writeNull() }
    }

    /// Writes bytes.
    package mutating func write(_ data: [UInt8]) {
        head(2, UInt64(data.count))
        bytes.append(contentsOf: data)
    }

    /// Writes null.
    package mutating func writeNull() { bytes.append(0xF6) }

    /// Writes a truth value.
    package mutating func write(_ flag: Bool) { bytes.append(flag ? 0xF5 : 0xF4) }

    /// Begins an array of so many elements, which the caller writes next.
    package mutating func beginArray(_ count: Int) { head(4, UInt64(count)) }

    /// Begins a map of so many members; the caller writes the key and the value of each next.
    package mutating func beginMap(_ count: Int) { head(5, UInt64(count)) }

    /// Writes a double in the shortest form that keeps its value; every NaN as 7e00.
    package mutating func write(_ number: Double) {
        if number.isNaN {
            bytes.append(0xF9)
            append(UInt16(0x7E00))
            return
        }
        let single = Float(number)
        guard Double(single).bitPattern == number.bitPattern else {
            bytes.append(0xFB)
            append(number.bitPattern)
            return
        }
        if let half = Self.half(single) {
            bytes.append(0xF9)
            append(half)
        } else {
            bytes.append(0xFA)
            append(single.bitPattern)
        }
    }

    /// The half-precision bits of a single that loses nothing by it. By hand, because Float16
    /// is not available on every platform Swift runs on.
    static func half(_ single: Float) -> UInt16? {
        let bits = single.bitPattern
        let sign = UInt16(bits >> 16) & 0x8000
        let exponent = Int((bits >> 23) & 0xFF)
        let fraction = bits & 0x7F_FFFF
        if exponent == 0xFF { return fraction == 0 ? sign | 0x7C00 : nil }
        if exponent == 0 { return fraction == 0 ? sign : nil }
        let unbiased = exponent - 127
        if unbiased >= -14, unbiased <= 15 {
            guard fraction & 0x1FFF == 0 else { return nil }
            return sign | UInt16(unbiased + 15) << 10 | UInt16(fraction >> 13)
        }
        guard unbiased >= -24, unbiased < -14 else { return nil }
        let shift = UInt32(-unbiased - 1)
        let whole = fraction | 0x80_0000
        guard whole & ((1 << shift) - 1) == 0 else { return nil }
        return sign | UInt16(whole >> shift)
    }

    /// Writes a property's value.
    package mutating func write(_ value: PropertyValue) {
        switch value {
        case .null: writeNull()
        case .boolean(let flag): write(flag)
        case .integer(let number): write(number)
        case .double(let number): write(number)
        case .string(let text): write(text)
        case .binary(let data): write(data)
        case .decimal(let text):
            head(6, Tag.decimal)
            write(text)
        case .date(let milliseconds):
            head(6, Tag.date)
            write(milliseconds)
        case .uuid(let high, let low):
            head(6, Tag.uuid)
            head(2, 16)
            append(high)
            append(low)
        case .uri(let text):
            head(6, Tag.uri)
            write(text)
        case .reference(let row):
            head(6, Tag.reference)
            write(row.rawValue)
        }
    }

    /// Writes a vector: an array of [node, incarnation, sequence], flattened, in canonical order.
    package mutating func write(_ vector: VersionVector) {
        beginArray(vector.entries.count * 3)
        for entry in vector.entries {
            write(UInt64(entry.actor.node.rawValue))
            write(entry.actor.incarnation)
            write(entry.sequence)
        }
    }

    /// Writes a dot as [node, incarnation, sequence].
    package mutating func write(_ dot: Dot) {
        beginArray(3)
        write(UInt64(dot.actor.node.rawValue))
        write(dot.actor.incarnation)
        write(dot.sequence)
    }
}
