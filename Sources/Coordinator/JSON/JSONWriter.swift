/// Writes JSON, the same bytes for the same value on every machine.
package enum JSONWriter {
    /// The value as UTF-8.
    ///
    /// Doubles are written so that reading them gives the same bits; NaN and infinities become
    /// the strings of the client interface.
    ///
    /// - Parameters:
    ///   - value: what to write. It recurses, so its depth must be bounded, as that of parsed
    ///     values is.
    ///   - pretty: whether to break lines and indent by two spaces.
    package static func bytes(of value: JSONValue, pretty: Bool = false) -> [UInt8] {
        var output: [UInt8] = []
        write(value, to: &output, indentation: pretty ? 0 : nil)
        return output
    }

    /// The value as text.
    package static func text(of value: JSONValue, pretty: Bool = false) -> String {
        String(decoding: bytes(of: value, pretty: pretty), as: UTF8.self)
    }

    /// Appends a value to bytes, compactly.
    package static func append(_ value: JSONValue, to output: inout [UInt8]) {
        write(value, to: &output, indentation: nil)
    }

    private static func write(
        _ value: JSONValue, to output: inout [UInt8], indentation: Int?
    ) {
        switch value {
        case .null: output.append(contentsOf: "null".utf8)
        case .boolean(let truth): output.append(contentsOf: (truth ? "true" : "false").utf8)
        case .integer(let number): output.append(contentsOf: String(number).utf8)
        case .double(let number):
            if number.isFinite {
                output.append(contentsOf: number.description.utf8)
            } else {
                write(string: nonFinite(number), to: &output)
            }
        case .string(let text): write(string: text, to: &output)
        case .bytes(let bytes): write(string: ValueText.base64(bytes), to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                breakLine(indentation.map { $0 + 1 }, in: &output)
                write(element, to: &output, indentation: indentation.map { $0 + 1 })
            }
            if !elements.isEmpty { breakLine(indentation, in: &output) }
            output.append(UInt8(ascii: "]"))
        case .object(let object):
            output.append(UInt8(ascii: "{"))
            for (index, member) in object.members.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                breakLine(indentation.map { $0 + 1 }, in: &output)
                write(string: member.key, to: &output)
                output.append(UInt8(ascii: ":"))
                if indentation != nil { output.append(UInt8(ascii: " ")) }
                write(member.value, to: &output, indentation: indentation.map { $0 + 1 })
            }
            if !object.members.isEmpty { breakLine(indentation, in: &output) }
            output.append(UInt8(ascii: "}"))
        }
    }

    /// `NaN`, `Infinity` or `-Infinity`.
    static func nonFinite(_ number: Double) -> String {
        number.isNaN ? "NaN" : number < 0 ? "-Infinity" : "Infinity"
    }

    private static func breakLine(_ indentation: Int?, in output: inout [UInt8]) {
        guard let indentation else { return }
        output.append(0x0A)
        output.append(contentsOf: repeatElement(0x20, count: indentation * 2))
    }

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    private static func write(string: String, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\""))
        for byte in string.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                output.append(UInt8(ascii: "\\"))
                output.append(byte)
            case 0x0A: output.append(contentsOf: "\\n".utf8)
            case 0x0D: output.append(contentsOf: "\\r".utf8)
            case 0x09: output.append(contentsOf: "\\t".utf8)
            case 0..<0x20, 0x7F:
                output.append(contentsOf: "\\u00".utf8)
                output.append(hexadecimal[Int(byte >> 4)])
                output.append(hexadecimal[Int(byte & 15)])
            default: output.append(byte)
            }
        }
        output.append(UInt8(ascii: "\""))
    }
}
