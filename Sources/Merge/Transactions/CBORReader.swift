/// Why bytes are not what they claim to be. Foreign bytes never trap: they throw this.
package struct DecodingFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake, for people.
    package let reason: String
    /// Where, in bytes from the start.
    package let offset: Int

    /// Describes a failure.
    package init(_ reason: String, offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    /// Reason and place.
    package var description: String { "\(reason) at byte \(offset)" }
}

/// Reads deterministic CBOR and refuses anything else.
///
/// Total: bounded by the bytes given, without recursion, without traps. What is not in the one
/// canonical form is refused, so that equal content has equal bytes and equal checksums.
///
/// Invariant: `0 <= offset <= bytes.count`.
package struct CBORReader: Sendable {
    private let bytes: [UInt8]
    private let end: Int
    /// How far reading has come.
    package private(set) var offset = 0

    /// Reads from the first byte on.
    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        end = bytes.count
    }

    /// How many bytes are left.
    package var remaining: Int { end - offset }

    private func failure(_ reason: String) -> DecodingFailure {
        DecodingFailure(reason, offset: offset)
    }

    /// Throws unless everything was read.
    package func finish() throws(DecodingFailure) {
        guard offset == end else { throw failure("\(end - offset) bytes too many") }
    }

    /// The next byte's major type, without reading it.
    private func peek() throws(DecodingFailure) -> UInt8 {
        guard offset < end else { throw failure("the bytes end too soon") }
        return bytes[offset]
    }

    @inline(__always)
    private mutating func load<Word: FixedWidthInteger & BitwiseCopyable>(
        _ type: Word.Type
    ) throws(DecodingFailure) -> Word {
        let size = MemoryLayout<Word>.size
        guard end - offset >= size else { throw failure("the bytes end too soon") }
        let start = offset
        let word = bytes.withUnsafeBytes {
            $0.loadUnaligned(fromByteOffset: start, as: Word.self)
        }
        offset += size
        return Word(bigEndian: word)
    }

    private mutating func head() throws(DecodingFailure) -> (major: UInt8, argument: UInt64) {
        let first = try load(UInt8.self)
        let major = first >> 5
        let short = first & 0x1F
        switch short {
        case 0..<24: return (major, UInt64(short))
        case 24:
            let value = try load(UInt8.self)
            guard value >= 24 else { throw failure("a number is not in its shortest form") }
            return (major, UInt64(value))
        case 25:
            let value = try load(UInt16.self)
            guard value > 0xFF else { throw failure("a number is not in its shortest form") }
            return (major, UInt64(value))
        case 26:
            let value = try load(UInt32.self)
            guard value > 0xFFFF else { throw failure("a number is not in its shortest form") }
            return (major, UInt64(value))
        case 27:
            let value = try load(UInt64.self)
            guard value > 0xFFFF_FFFF else {
                throw failure("a number is not in its shortest form")
            }
            return (major, value)
        default: throw failure("indefinite lengths are not allowed")
        }
    }

    private mutating func argument(
        ofMajor major: UInt8, _ what: String
    ) throws(DecodingFailure) -> UInt64 {
        let start = offset
        guard try peek() >> 5 == major else { throw failure("expected \(what)") }
        let head = try head()
        guard head.major == major else { throw DecodingFailure("expected \(what)", offset: start) }
        return head.argument
    }

    /// Reads an unsigned integer.
    package mutating func unsigned() throws(DecodingFailure) -> UInt64 {
        try argument(ofMajor: 0, "an unsigned number")
    }

    /// Reads a signed integer.
    package mutating func signed() throws(DecodingFailure) -> Int64 {
        let major = try peek() >> 5
        guard major <= 1 else { throw failure("expected a number") }
        let value = try head().argument
        guard value <= UInt64(Int64.max) else { throw failure("a number is out of range") }
        return major == 0 ? Int64(value) : -1 - Int64(value)
    }

    /// Reads the head of an array and gives its count.
    ///
    /// - Parameter least: how many bytes each element takes at the least, so that a count that
    ///   cannot be true is refused before memory is set aside for it.
    package mutating func array(least: Int = 1) throws(DecodingFailure) -> Int {
        let count = try argument(ofMajor: 4, "an array")
        guard count <= UInt64(remaining / max(least, 1)) else {
            throw failure("an array claims more elements than there are bytes")
        }
        return Int(count)
    }

    /// Reads the head of an array that must have exactly so many elements.
    package mutating func array(exactly expected: Int) throws(DecodingFailure) {
        guard try array(least: 0) == expected else {
            throw failure("expected an array of \(expected)")
        }
    }

    private mutating func length(_ argument: UInt64) throws(DecodingFailure) -> Int {
        guard argument <= UInt64(remaining) else { throw failure("the bytes end too soon") }
        return Int(argument)
    }

    /// Reads bytes.
    package mutating func data() throws(DecodingFailure) -> [UInt8] {
        let count = try length(try argument(ofMajor: 2, "bytes"))
        let range = offset..<offset + count
        offset += count
        return Array(bytes[range])
    }

    /// Reads text, which must be valid UTF-8.
    package mutating func text() throws(DecodingFailure) -> String {
        let count = try length(try argument(ofMajor: 3, "text"))
        let text = try string(offset..<offset + count)
        offset += count
        return text
    }

    private func string(_ range: Range<Int>) throws(DecodingFailure) -> String {
        // Four times as fast as `String(validating:as:)` of a slice.
        guard let text = try? UTF8Span(validating: bytes.span.extracting(range)) else {
            throw failure("text is not UTF-8")
        }
        return String(copying: text)
    }

    /// Whether null comes next; then it is read.
    package mutating func null() throws(DecodingFailure) -> Bool {
        guard try peek() == 0xF6 else { return false }
        offset += 1
        return true
    }

    /// Reads text or null.
    package mutating func optionalText() throws(DecodingFailure) -> String? {
        try null() ? nil : try text()
    }

    /// Reads a truth value.
    package mutating func boolean() throws(DecodingFailure) -> Bool {
        switch try load(UInt8.self) {
        case 0xF4: return false
        case 0xF5: return true
        default: throw failure("expected true or false")
        }
    }

    /// Reads a node, which must be within bounds.
    package mutating func node() throws(DecodingFailure) -> NodeID {
        guard let node = NodeID(try unsigned()) else { throw failure("no such node number") }
        return node
    }

    /// Reads an actor's two numbers.
    package mutating func actor() throws(DecodingFailure) -> ActorID {
        let node = try node()
        return ActorID(node: node, incarnation: try unsigned())
    }

    /// Reads a dot: an array of three.
    package mutating func dot() throws(DecodingFailure) -> Dot {
        try array(exactly: 3)
        let actor = try actor()
        let sequence = try unsigned()
        guard sequence > 0 else { throw failure("a sequence starts at 1") }
        return Dot(actor: actor, sequence: sequence)
    }

    /// Reads a timestamp's 64 bits.
    package mutating func timestamp() throws(DecodingFailure) -> HybridTimestamp {
        guard let timestamp = HybridTimestamp(rawValue: try unsigned()) else {
            throw failure("a timestamp is out of range")
        }
        return timestamp
    }

    /// Reads a vector in canonical order.
    package mutating func vector() throws(DecodingFailure) -> VersionVector {
        let count = try array()
        guard count % 3 == 0 else { throw failure("a vector has three numbers an actor") }
        // An actor is a start of a node; in memory it takes four times what it may take here.
        guard count / 3 <= 1_000_000 else { throw failure("a vector names too many actors") }
        var entries: [VersionVector.Entry] = []
        entries.reserveCapacity(count / 3)
        for _ in 0..<count / 3 {
            let actor = try actor()
            entries.append(.init(actor: actor, sequence: try unsigned()))
        }
        guard let vector = VersionVector(canonical: entries) else {
            throw failure("a vector is not in canonical order")
        }
        return vector
    }

    /// Reads a property's value.
    package mutating func value() throws(DecodingFailure) -> PropertyValue {
        let first = try peek()
        switch first >> 5 {
        case 0, 1: return .integer(try signed())
        case 2: return .binary(try data())
        case 3: return .string(try text())
        case 6: return try tagged()
        case 7: return try simple(first)
        default: throw failure("expected a value")
        }
    }

    private mutating func tagged() throws(DecodingFailure) -> PropertyValue {
        switch try head().argument {
        case CBORWriter.Tag.date: return .date(try signed())
        case CBORWriter.Tag.decimal:
            let text = try text()
            guard PropertyValue.canonicalDecimal(text) == text else {
                throw failure("a decimal is not in canonical form")
            }
            return .decimal(text)
        case CBORWriter.Tag.uri: return .uri(try text())
        case CBORWriter.Tag.reference: return .reference(RowID(try signed()))
        case CBORWriter.Tag.uuid:
            guard try argument(ofMajor: 2, "bytes") == 16 else {
                throw failure("a UUID has 16 bytes")
            }
            let high = try load(UInt64.self)
            return .uuid(high, try load(UInt64.self))
        default: throw failure("unknown tag")
        }
    }

    private mutating func simple(_ first: UInt8) throws(DecodingFailure) -> PropertyValue {
        let start = offset
        offset += 1
        let number: Double
        switch first {
        case 0xF4: return .boolean(false)
        case 0xF5: return .boolean(true)
        case 0xF6: return .null
        case 0xF9: number = Self.double(half: try load(UInt16.self))
        case 0xFA: number = Double(Float(bitPattern: try load(UInt32.self)))
        case 0xFB: number = Double(bitPattern: try load(UInt64.self))
        default: throw failure("expected a value")
        }
        // Only the form that the writer would have chosen is accepted.
        var writer = CBORWriter(capacity: 9)
        writer.write(number)
        guard bytes[start..<offset].elementsEqual(writer.bytes) else {
            throw DecodingFailure("a number is not in its shortest form", offset: start)
        }
        return .double(number)
    }

    /// The number that half-precision bits stand for.
    package static func double(half: UInt16) -> Double {
        let sign: Double = half & 0x8000 == 0 ? 1 : -1
        let exponent = Int(half >> 10) & 0x1F
        let fraction = Double(half & 0x3FF)
        func power(_ exponent: Int) -> Double {
            Double(sign: .plus, exponent: exponent, significand: 1)
        }
        switch exponent {
        case 0: return sign * fraction * power(-24)
        case 31: return fraction == 0 ? sign * .infinity : .nan
        default: return sign * (1 + fraction / 1024) * power(exponent - 15)
        }
    }
}
