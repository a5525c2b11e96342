// The body of a request: JSON, or CBOR where the route takes it, without any encoding.
//
// Functions without state.

internal import HTTPTypes

/// Checks what a request says of its body.
enum RequestContent {
    /// Refuses a body that is encoded, or something else than JSON and what the route takes.
    ///
    /// Without asking first, browsers let any page send forms and plain text, but not these types.
    ///
    /// - Parameter takesCBOR: whether the route takes CBOR beside JSON.
    /// - Returns: the form of the body.
    /// - Throws: ``HTTPError``: 415 `mediaTypeNotSupported` or `encodingNotSupported`.
    static func check(_ headers: HTTPFields, takesCBOR: Bool) throws(HTTPError) -> BodyFormat {
        if let coding = headers[.contentEncoding], coding.lowercased() != "identity" {
            var error = HTTPError(
                415, "encodingNotSupported", "Bodies are taken as they are, without any encoding.")
            error.fields[.acceptEncoding] = "identity"
            throw error
        }
        let type = headers[.contentType]
        if isJSON(type) { return .json }
        if takesCBOR, isCBOR(type) { return .cbor }
        var error = HTTPError(
            415, "mediaTypeNotSupported",
            takesCBOR
                ? "A body must be JSON or CBOR: send it with Content-Type: application/json or "
                    + "application/cbor."
                : "A body must be JSON: send it with Content-Type: application/json.")
        error.fields[.accept] = accepted(takesCBOR: takesCBOR)
        throw error
    }

    /// The types of bodies that a route takes.
    static func accepted(takesCBOR: Bool) -> String {
        let formats: [BodyFormat] = takesCBOR ? [.json, .cbor] : [.json]
        return formats.map(\.mediaType).joined(separator: ", ")
    }

    /// Whether a field `Content-Type` says CBOR, which has no parameters that matter.
    static func isCBOR(_ field: String?) -> Bool {
        field?.lowercased().split(separator: ";", omittingEmptySubsequences: false).first
            .map { $0.trimmingSpaces() } == BodyFormat.cbor.mediaType
    }

    /// Whether a field `Content-Type` says JSON in UTF-8.
    static func isJSON(_ field: String?) -> Bool {
        guard let field else { return false }
        // What nearly every client sends.
        if field == "application/json" { return true }
        let parts = field.lowercased().split(separator: ";", omittingEmptySubsequences: false)
            .map { $0.trimmingSpaces() }
        guard parts[0] == "application/json" else { return false }
        return parts.dropFirst().allSatisfy { parameter in
            guard parameter.hasPrefix("charset=") else { return true }
            return ["utf-8", "\"utf-8\"", "utf8"].contains(parameter.dropFirst(8))
        }
    }
}

extension StringProtocol {
    /// Without spaces and tabs at its ends.
    func trimmingSpaces() -> String {
        let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        return String(self.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
    }
}
