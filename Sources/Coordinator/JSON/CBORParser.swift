package import Merge

/// Reads CBOR (RFC 8949) from bytes, as far as it says what JSON can say.
///
/// Total: what is claimed is compared with the bytes that are there before memory is set aside for
/// it. The parser keeps its own stack, so hostile nesting costs an error and never the thread's.
/// Unlike ``CBORReader`` it takes numbers of any width and indefinite lengths. It refuses tags, keys
/// that are no text, duplicate keys, `undefined`, other simple values and numbers that are not finite.
package struct CBORParser {
    /// An array or map that is not whole yet. Changed in place only, as in ``JSONParser``.
    private struct Container {
        let isArray: Bool
        /// How many elements are still to come; nil where a break ends it.
        var left: Int?
        var elements: [JSONValue] = []
        var object = JSONObject()
        var key = ""
        var keyStart = 0
    }

    /// The first byte of an item: its major type, and what says how long it is.
    private struct Head {
        let start: Int
        let major: UInt8
        /// A number, or a length; nil where a break ends the item.
        let argument: UInt64?
    }

    /// The least bytes that parts of a value have as JSON. An item has one and a separator; the
    /// last one in a container has no separator, and the container has two brackets.
    private enum Weight {
        static let item = 2
        static let key = 3
    }

    private let bytes: [UInt8]
    private let maximumDepth: Int
    private let maximumBytes: Int
    /// The bytes of JSON that may still come. Items of CBOR take as little as one byte and would
    /// otherwise take several times the memory of a JSON text of the same bound.
    private var weightLeft: Int
    private var position = 0
    private var stack: [Container] = []

    private static let stop: UInt8 = 0xFF
    /// For how many elements memory is set aside at once; a claim may be for many more.
    private static let reserved = 16

    private init(_ bytes: [UInt8], maximumDepth: Int, maximumBytes: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
        self.maximumBytes = maximumBytes
        weightLeft = maximumBytes == .max ? .max : maximumBytes + 1
    }

    /// Parses one value.
    ///
    /// - Parameters:
    ///   - bytes: one item of CBOR, and nothing after it.
    ///   - maximumDepth: how deep containers may nest.
    ///   - maximumBytes: how many bytes there may be. A value with more items than a JSON text of so many
    ///     bytes can have is refused too.
    /// - Throws: ``CBORError`` with the place.
    package static func parse(
        _ bytes: [UInt8], maximumDepth: Int = JSONParser.defaultMaximumDepth,
        maximumBytes: Int = JSONParser.defaultMaximumBytes
    ) throws(CBORError) -> JSONValue {
        guard bytes.count <= maximumBytes else {
            throw CBORError(
                message: "there are more than \(maximumBytes) bytes", offset: maximumBytes,
                isSyntax: false)
        }
        var parser = CBORParser(bytes, maximumDepth: maximumDepth, maximumBytes: maximumBytes)
        return try parser.document()
    }

    private mutating func document() throws(CBORError) -> JSONValue {
        while true {
            guard var value = try scalarOrOpening() else { continue }
            // A value is whole: hand it to its container, which may become whole by that.
            while true {
                guard !stack.isEmpty else {
                    guard position == bytes.count else {
                        throw error("something follows the value", at: position)
                    }
                    return value
                }
                guard let whole = try add(value) else { break }
                value = whole
            }
        }
    }

    /// Adds a value to the innermost container; gives that container as a value where it is whole
    /// by that, and nil where another element follows.
    private mutating func add(_ value: JSONValue) throws(CBORError) -> JSONValue? {
        let top = stack.count - 1
        if stack[top].isArray {
            stack[top].elements.append(value)
        } else if !stack[top].object.insert(stack[top].key, value) {
            throw error(
                "the key \"\(stack[top].key)\" occurs twice", at: stack[top].keyStart,
                isSyntax: false)
        }
        if let left = stack[top].left { stack[top].left = left - 1 }
        if try isWhole(left: stack[top].left) {
            let container = stack.removeLast()
            return container.isArray ? .array(container.elements) : .object(container.object)
        }
        if !stack[top].isArray { try readKey() }
        return nil
    }

    /// Whether a container has all its elements. A break that ends it is read.
    private mutating func isWhole(left: Int?) throws(CBORError) -> Bool {
        if let left { return left == 0 }
        guard try peek() == Self.stop else { return false }
        position += 1
        return true
    }

    private mutating func readKey() throws(CBORError) {
        let start = position
        let head = try head()
        guard head.major == 3 else {
            throw error("a key must be text", at: start, isSyntax: bytes[start] == Self.stop)
        }
        try weigh(Weight.key, start)
        let key = try text(head)
        stack[stack.count - 1].key = key
        stack[stack.count - 1].keyStart = start
    }

    /// Reads a scalar or an empty container; nil where a container was opened.
    private mutating func scalarOrOpening() throws(CBORError) -> JSONValue? {
        let head = try head()
        try weigh(Weight.item, head.start)
        switch head.major {
        case 0: return try integer(head, isNegative: false)
        case 1: return try integer(head, isNegative: true)
        case 2: return .bytes(try byteString(head))
        case 3: return .string(try text(head))
        case 4, 5: return try open(head, isArray: head.major == 4)
        case 6:
            throw error(
                "tags are not taken: send dates, decimals, UUIDs and URIs as the text that JSON has",
                at: head.start, isSyntax: false)
        default: return try simple(head)
        }
    }

    private mutating func open(_ head: Head, isArray: Bool) throws(CBORError) -> JSONValue? {
        guard stack.count < maximumDepth else {
            throw error(
                "nested deeper than \(maximumDepth) levels", at: head.start, isSyntax: false)
        }
        var left: Int?
        if let count = head.argument {
            guard count <= UInt64((bytes.count - position) / (isArray ? 1 : 2)) else {
                throw error(
                    "\(isArray ? "an array" : "a map") claims \(count) elements, more than there "
                        + "are bytes for", at: head.start)
            }
            left = Int(count)
        }
        if try isWhole(left: left) { return isArray ? .array([]) : .object(JSONObject()) }
        var container = Container(isArray: isArray, left: left)
        let capacity = min(left ?? 0, Self.reserved)
        if isArray {
            container.elements.reserveCapacity(capacity)
        } else {
            container.object.reserveCapacity(capacity)
        }
        stack.append(container)
        if !isArray { try readKey() }
        return nil
    }

    // MARK: Scalars

    /// An integer; beyond 64 bits with a sign it is a double, as that of a JSON text is.
    private func integer(_ head: Head, isNegative: Bool) throws(CBORError) -> JSONValue {
        guard let argument = head.argument else { throw unknownHead(head.start) }
        if let number = Int64(exactly: argument) {
            return .integer(isNegative ? -1 - number : number)
        }
        guard isNegative else { return .double(Double(argument)) }
        return .double(argument == .max ? -0x1p64 : -Double(argument + 1))
    }

    private func simple(_ head: Head) throws(CBORError) -> JSONValue {
        let number: Double
        switch (bytes[head.start], head.argument) {
        case (0xF4, _): return .boolean(false)
        case (0xF5, _): return .boolean(true)
        case (0xF6, _): return .null
        case (0xF7, _):
            throw error(
                "undefined is not taken: leave the member out, or send null", at: head.start,
                isSyntax: false)
        case (0xF9, let bits?): number = CBORReader.double(half: UInt16(truncatingIfNeeded: bits))
        case (0xFA, let bits?):
            number = Double(Float(bitPattern: UInt32(truncatingIfNeeded: bits)))
        case (0xFB, let bits?): number = Double(bitPattern: bits)
        case (Self.stop, _): throw error("a break where a value should be", at: head.start)
        default: throw error("an unknown simple value", at: head.start, isSyntax: false)
        }
        guard number.isFinite else {
            throw error(
                "\(JSONWriter.nonFinite(number)) is no number here: send it as text, as JSON has it",
                at: head.start, isSyntax: false)
        }
        return .double(number)
    }

    private mutating func text(_ head: Head) throws(CBORError) -> String {
        if let length = head.argument {
            return try string(take(length, "a text"), at: head.start)
        }
        // Each chunk must be whole by itself: no character is divided between two.
        var whole = ""
        while let chunk = try chunk(of: head, "a text") {
            whole += try string(chunk.content, at: chunk.start)
        }
        return whole
    }

    private mutating func byteString(_ head: Head) throws(CBORError) -> [UInt8] {
        if let length = head.argument { return Array(bytes[try take(length, "a byte string")]) }
        var whole: [UInt8] = []
        while let chunk = try chunk(of: head, "a byte string") { whole += bytes[chunk.content] }
        return whole
    }

    /// The next chunk of a text or a byte string of indefinite length; nil at its end.
    private mutating func chunk(
        of head: Head, _ what: StaticString
    ) throws(CBORError) -> (start: Int, content: Range<Int>)? {
        guard try peek() != Self.stop else {
            position += 1
            return nil
        }
        let chunk = try self.head()
        guard chunk.major == head.major, let length = chunk.argument else {
            throw error("a chunk of \(what) is something else", at: chunk.start)
        }
        return (chunk.start, try take(length, what))
    }

    private mutating func take(
        _ length: UInt64, _ what: StaticString
    ) throws(CBORError) -> Range<Int> {
        guard length <= UInt64(bytes.count - position) else {
            throw error("the bytes end within \(what)", at: bytes.count)
        }
        let start = position
        position += Int(length)
        return start..<position
    }

    private func string(_ range: Range<Int>, at start: Int) throws(CBORError) -> String {
        // Four times as fast as `String(validating:as:)` of a slice.
        guard let text = try? UTF8Span(validating: bytes.span.extracting(range)) else {
            throw error("the text is not UTF-8", at: start)
        }
        return String(copying: text)
    }

    // MARK: Bytes

    private func peek() throws(CBORError) -> UInt8 {
        guard position < bytes.count else {
            throw error("the bytes end where something should follow", at: position)
        }
        return bytes[position]
    }

    private mutating func head() throws(CBORError) -> Head {
        let start = position
        let first = try peek()
        position += 1
        let major = first >> 5
        let short = first & 0x1F
        switch short {
        case 0..<24: return Head(start: start, major: major, argument: UInt64(short))
        case 24...27:
            let size = 1 << Int(short - 24)
            guard bytes.count - position >= size else {
                throw error("the bytes end within the head of an item", at: bytes.count)
            }
            var argument: UInt64 = 0
            for byte in bytes[position..<position + size] {
                argument = argument << 8 | UInt64(byte)
            }
            position += size
            return Head(start: start, major: major, argument: argument)
        case 31 where (2...5).contains(major) || major == 7:
            return Head(start: start, major: major, argument: nil)
        default: throw unknownHead(start)
        }
    }

    private mutating func weigh(_ weight: Int, _ start: Int) throws(CBORError) {
        weightLeft -= weight
        guard weightLeft >= 0 else {
            throw error(
                "there are more items than \(maximumBytes) bytes of JSON can have", at: start,
                isSyntax: false)
        }
    }

    private func unknownHead(_ start: Int) -> CBORError {
        error("no item begins with the byte \(bytes[start])", at: start)
    }

    private func error(_ message: String, at offset: Int, isSyntax: Bool = true) -> CBORError {
        CBORError(message: message, offset: offset, isSyntax: isSyntax)
    }
}

/// Why bytes are no CBOR, and where.
package struct CBORError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake.
    package let message: String
    /// Where, in bytes from 0: the item that is wrong, or the end where the bytes end too soon.
    package let offset: Int
    /// Whether the bytes are no CBOR; false where they are, but with what is not taken, such as a
    /// tag.
    package let isSyntax: Bool

    /// The place and what is wrong there.
    package var description: String { "byte \(offset): \(message)" }
}

extension CBORWriter {
    /// The value as CBOR, the same bytes for the same value on every machine: shortest heads and
    /// numbers, definite lengths, members in their order.
    ///
    /// NaN and infinities become the strings of the client interface, as in JSON.
    ///
    /// - Parameter value: what to write. It recurses, so its depth must be bounded, as that of
    ///   parsed values is.
    package static func bytes(of value: JSONValue) -> [UInt8] {
        var writer = CBORWriter()
        writer.write(value)
        return writer.bytes
    }

    /// Writes a value.
    package mutating func write(_ value: JSONValue) {
        switch value {
        case .null: writeNull()
        case .boolean(let truth): write(truth)
        case .integer(let number): write(number)
        case .double(let number):
            if number.isFinite { write(number) } else { write(JSONWriter.nonFinite(number)) }
        case .string(let text): write(text)
        case .bytes(let bytes): write(bytes)
        case .array(let elements):
            beginArray(elements.count)
            for element in elements { write(element) }
        case .object(let object):
            beginMap(object.members.count)
            for member in object.members {
                write(member.key)
                write(member.value)
            }
        }
    }
}
