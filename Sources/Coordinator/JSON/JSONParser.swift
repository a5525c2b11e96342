/// Reads JSON (RFC 8259) from bytes.
///
/// Strict: UTF-8 is checked, duplicate keys and lone surrogates are refused, nothing may follow
/// the value. It keeps its own stack, so hostile nesting costs an error and never the thread's.
package struct JSONParser {
    /// How deep arrays and objects may nest; no request of ours needs a tenth of it.
    package static let defaultMaximumDepth = 64
    /// How large a text may be: 16 MiB, the bound of a request's body.
    package static let defaultMaximumBytes = 16 << 20

    /// An array or object that is not whole yet. Changed in place only: a copy of its elements at
    /// every step would make long arrays quadratic.
    private struct Container {
        let isArray: Bool
        var elements: [JSONValue] = []
        var object = JSONObject()
        var key = ""
    }

    private let bytes: [UInt8]
    private let maximumDepth: Int
    private var position = 0
    private var stack: [Container] = []

    private init(_ bytes: [UInt8], maximumDepth: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
    }

    /// Parses one value.
    ///
    /// - Parameters:
    ///   - bytes: the text in UTF-8.
    ///   - maximumDepth: how deep containers may nest.
    ///   - maximumBytes: how long the text may be.
    /// - Throws: ``JSONError`` with the place.
    package static func parse(
        _ bytes: [UInt8], maximumDepth: Int = defaultMaximumDepth,
        maximumBytes: Int = defaultMaximumBytes
    ) throws(JSONError) -> JSONValue {
        guard bytes.count <= maximumBytes else {
            throw JSONError(
                message: "the text has more than \(maximumBytes) bytes", offset: maximumBytes,
                line: 1, column: 1, isSyntax: false)
        }
        var parser = JSONParser(bytes, maximumDepth: maximumDepth)
        return try parser.document()
    }

    private mutating func document() throws(JSONError) -> JSONValue {
        while true {
            skipSpace()
            guard var value = try scalarOrOpening() else { continue }
            // A value is whole: hand it to its container, which may become whole by that.
            while true {
                guard !stack.isEmpty else {
                    skipSpace()
                    guard position == bytes.count else {
                        throw error("something follows the value")
                    }
                    return value
                }
                guard let whole = try add(value) else { break }
                value = whole
            }
        }
    }

    /// Adds a value to the innermost container; gives that container as a value where it is
    /// closed by what follows, and nil where another element follows.
    private mutating func add(_ value: JSONValue) throws(JSONError) -> JSONValue? {
        skipSpace()
        let next = position < bytes.count ? bytes[position] : 0
        let top = stack.count - 1
        if stack[top].isArray {
            stack[top].elements.append(value)
            guard next == UInt8(ascii: "]") || next == UInt8(ascii: ",") else {
                throw error("expected , or ] after an element")
            }
            position += 1
            return next == UInt8(ascii: "]") ? .array(stack.removeLast().elements) : nil
        }
        guard stack[top].object.insert(stack[top].key, value) else {
            throw error("the key \"\(stack[top].key)\" occurs twice", isSyntax: false)
        }
        guard next == UInt8(ascii: "}") || next == UInt8(ascii: ",") else {
            throw error("expected , or } after a member")
        }
        position += 1
        if next == UInt8(ascii: "}") { return .object(stack.removeLast().object) }
        skipSpace()
        stack[top].key = try memberKey()
        return nil
    }

    private mutating func memberKey() throws(JSONError) -> String {
        guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else {
            throw error("expected a key in double quotes")
        }
        let key = try string()
        skipSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: ":") else {
            throw error("expected : after a key")
        }
        position += 1
        return key
    }

    /// Reads a scalar or an empty container; nil where a container was opened.
    private mutating func scalarOrOpening() throws(JSONError) -> JSONValue? {
        guard position < bytes.count else { throw error("the text ends where a value should be") }
        switch bytes[position] {
        case UInt8(ascii: "{"):
            try open()
            if closes(with: UInt8(ascii: "}")) { return .object(JSONObject()) }
            let key = try memberKey()
            stack.append(Container(isArray: false, key: key))
            return nil
        case UInt8(ascii: "["):
            try open()
            if closes(with: UInt8(ascii: "]")) { return .array([]) }
            stack.append(Container(isArray: true))
            return nil
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .boolean(true))
        case UInt8(ascii: "f"): return try word("false", .boolean(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case UInt8(ascii: "-"), 48...57: return try number()
        default: throw error("expected a value")
        }
    }

    private mutating func open() throws(JSONError) {
        guard stack.count < maximumDepth else {
            throw error("nested deeper than \(maximumDepth) levels", isSyntax: false)
        }
        position += 1
        skipSpace()
    }

    private mutating func closes(with byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    private mutating func word(
        _ text: StaticString, _ value: JSONValue
    ) throws(JSONError) -> JSONValue {
        let length = text.utf8CodeUnitCount
        let matches = text.withUTF8Buffer { expected in
            position + length <= bytes.count
                && bytes[position..<position + length].elementsEqual(expected)
        }
        guard matches else { throw error("expected a value") }
        position += length
        return value
    }

    private mutating func skipSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = position
        if bytes[position] == UInt8(ascii: "-") { position += 1 }
        let digitsStart = position
        guard digits() > 0 else { throw error("expected a digit") }
        guard bytes[digitsStart] != 48 || position == digitsStart + 1 else {
            position = digitsStart
            throw error("a number has no leading zeros")
        }
        var isInteger = true
        if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
            isInteger = false
            position += 1
            guard digits() > 0 else { throw error("expected a digit after the point") }
        }
        if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            position += 1
            if position < bytes.count,
                bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-")
            {
                position += 1
            }
            guard digits() > 0 else { throw error("expected a digit in the exponent") }
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        // No integer is -0, but a double is.
        if isInteger, text != "-0", let integer = Int64(text) { return .integer(integer) }
        guard let double = Double(text), double.isFinite else {
            position = start
            throw error("the number is out of range", isSyntax: false)
        }
        return .double(double)
    }

    private mutating func digits() -> Int {
        let start = position
        while position < bytes.count, (48...57).contains(bytes[position]) { position += 1 }
        return position - start
    }

    private mutating func string() throws(JSONError) -> String {
        position += 1
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let text = try text(bytes[start..<position])
                position += 1
                return text
            case UInt8(ascii: "\\"): return try escapedString(from: start)
            case 0..<0x20: throw error("a control character in a string must be escaped")
            default: position += 1
            }
        }
        throw error("the text ends within a string")
    }

    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        var buffer = Array(bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case UInt8(ascii: "\""):
                let text = try text(buffer[...])
                position += 1
                return text
            case UInt8(ascii: "\\"):
                position += 1
                try appendEscape(to: &buffer)
            case 0..<0x20: throw error("a control character in a string must be escaped")
            default:
                buffer.append(byte)
                position += 1
            }
        }
        throw error("the text ends within a string")
    }

    private mutating func appendEscape(to buffer: inout [UInt8]) throws(JSONError) {
        guard position < bytes.count else { throw error("the text ends within a string") }
        let byte = bytes[position]
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): buffer.append(byte)
        case UInt8(ascii: "b"): buffer.append(0x08)
        case UInt8(ascii: "f"): buffer.append(0x0C)
        case UInt8(ascii: "n"): buffer.append(0x0A)
        case UInt8(ascii: "r"): buffer.append(0x0D)
        case UInt8(ascii: "t"): buffer.append(0x09)
        case UInt8(ascii: "u"):
            var code = try hexadecimal()
            if (0xD800..<0xDC00).contains(code), position + 1 < bytes.count,
                bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u")
            {
                position += 2
                let low = try hexadecimal()
                guard (0xDC00..<0xE000).contains(low) else { throw error("a lone surrogate") }
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw error("a lone surrogate") }
            buffer.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
        default:
            position -= 1
            throw error("an unknown escape")
        }
    }

    private mutating func hexadecimal() throws(JSONError) -> UInt32 {
        guard position + 4 <= bytes.count else { throw error("expected four hexadecimal digits") }
        var code: UInt32 = 0
        for _ in 0..<4 {
            switch bytes[position] {
            case 48...57: code = code << 4 | UInt32(bytes[position] - 48)
            case 65...70: code = code << 4 | UInt32(bytes[position] - 55)
            case 97...102: code = code << 4 | UInt32(bytes[position] - 87)
            default: throw error("expected four hexadecimal digits")
            }
            position += 1
        }
        return code
    }

    private func text(_ slice: ArraySlice<UInt8>) throws(JSONError) -> String {
        // Four times as fast as `String(validating:as:)`.
        guard let text = try? UTF8Span(validating: slice.span) else {
            throw error("the string is not UTF-8")
        }
        return String(copying: text)
    }

    private func error(_ message: String, isSyntax: Bool = true) -> JSONError {
        let before = bytes[..<min(position, bytes.count)]
        let line = before.reduce(1) { $0 + ($1 == 0x0A ? 1 : 0) }
        let lineStart = before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        return JSONError(
            message: message, offset: before.count, line: line,
            column: before.count - lineStart + 1, isSyntax: isSyntax)
    }
}
