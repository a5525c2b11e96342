// The two forms in which bodies of requests and answers have the same structure.

internal import Coordinator
internal import Merge

/// JSON, or CBOR where a route offers it.
enum BodyFormat: String, Sendable {
    case json = "application/json"
    case cbor = "application/cbor"

    /// The form's name in `Content-Type` and `Accept`.
    var mediaType: String { rawValue }

    /// Reads a body.
    ///
    /// - Throws: ``JSONError`` or ``CBORError``, with the place.
    func parse(_ bytes: [UInt8], maximumBytes: Int) throws -> JSONValue {
        switch self {
        case .json: try JSONParser.parse(bytes, maximumBytes: maximumBytes)
        case .cbor: try CBORParser.parse(bytes, maximumBytes: maximumBytes)
        }
    }

    /// A whole value.
    func bytes(of value: JSONValue) -> [UInt8] {
        switch self {
        case .json: JSONWriter.bytes(of: value)
        case .cbor: CBORWriter.bytes(of: value)
        }
    }
}

extension BodyFormat {
    // MARK: Parts of a value, in the order in which they are written

    func append(_ value: JSONValue, to output: inout [UInt8]) {
        switch self {
        case .json: JSONWriter.append(value, to: &output)
        case .cbor: CBORWriter.append(to: &output) { $0.write(value) }
        }
    }

    /// A text in which JSON has nothing to escape, such as a URI.
    func append(plain text: String, to output: inout [UInt8]) {
        switch self {
        case .json:
            output.append(UInt8(ascii: "\""))
            output.append(contentsOf: text.utf8)
            output.append(UInt8(ascii: "\""))
        case .cbor: CBORWriter.append(to: &output) { $0.write(text) }
        }
    }

    /// The key of a member, and what separates it from the member before.
    func append(key: StaticString, isFirst: Bool = false, to output: inout [UInt8]) {
        separate(isFirst: isFirst, in: &output)
        switch self {
        case .json:
            output.append(UInt8(ascii: "\""))
            key.withUTF8Buffer { output.append(contentsOf: $0) }
            output.append(contentsOf: "\":".utf8)
        case .cbor: CBORWriter.append(to: &output) { $0.write(key.description) }
        }
    }

    /// The key of a member as bytes, to be written often after ``separate(isFirst:in:)``.
    func bytes(ofKey key: String) -> [UInt8] {
        let bytes = bytes(of: .string(key))
        return self == .json ? bytes + [UInt8(ascii: ":")] : bytes
    }

    /// What separates an element or a member from the one before.
    func separate(isFirst: Bool, in output: inout [UInt8]) {
        if self == .json, !isFirst { output.append(UInt8(ascii: ",")) }
    }

    func beginObject(_ count: Int, in output: inout [UInt8]) {
        switch self {
        case .json: output.append(UInt8(ascii: "{"))
        case .cbor: CBORWriter.append(to: &output) { $0.beginMap(count) }
        }
    }

    func endObject(in output: inout [UInt8]) {
        if self == .json { output.append(UInt8(ascii: "}")) }
    }

    func beginArray(_ count: Int, in output: inout [UInt8]) {
        switch self {
        case .json: output.append(UInt8(ascii: "["))
        case .cbor: CBORWriter.append(to: &output) { $0.beginArray(count) }
        }
    }

    func endArray(in output: inout [UInt8]) {
        if self == .json { output.append(UInt8(ascii: "]")) }
    }
}

/// What a field `Accept` asks for, as far as it tells JSON from CBOR.
struct AcceptedFormats {
    /// The form in which a route answers that offers both.
    let format: BodyFormat
    /// Whether the client takes nothing but CBOR.
    let isOnlyCBOR: Bool

    /// Reads the field. Without CBOR in it, and beside newline-delimited JSON, all is JSON.
    init(_ field: String?) {
        // What nearly every client sends.
        guard let field = field?.lowercased(), field.contains(BodyFormat.cbor.mediaType) else {
            (format, isOnlyCBOR) = (.json, false)
            return
        }
        var weights: [String: Double] = [:]
        for range in field.split(separator: ",") {
            let parts = range.split(separator: ";").map { $0.trimmingSpaces() }
            guard let type = parts.first else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }
                .map { Double($0.dropFirst(2)) ?? 0 }
            weights[type] = weight ?? 1
        }
        let cbor = weights[BodyFormat.cbor.mediaType] ?? 0
        let json =
            weights[BodyFormat.json.mediaType] ?? weights["application/*"] ?? weights["*/*"] ?? 0
        let isOfLines = weights["application/x-ndjson"] != nil
        format = cbor > 0 && cbor >= json && !isOfLines ? .cbor : .json
        isOnlyCBOR =
            cbor > 0 && weights.allSatisfy { $0.key == BodyFormat.cbor.mediaType || $0.value <= 0 }
    }
}
