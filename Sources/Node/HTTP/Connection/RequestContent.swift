// The body of a request: JSON, as it is.
//
// Functions without state.

internal import HTTPTypes

/// Checks what a request says of its body.
enum RequestContent {
    /// Refuses a body that is encoded, or something else than JSON.
    ///
    /// Without asking first, browsers let any page send forms and plain text, but not this type.
    ///
    /// - Throws: ``HTTPError``: 415 `mediaTypeNotSupported` or `encodingNotSupported`.
    static func check(_ headers: HTTPFields) throws(HTTPError) {
        if let coding = headers[.contentEncoding], coding.lowercased() != "identity" {
            var error = HTTPError(
                415, "encodingNotSupported", "Bodies are taken as they are, without any encoding.")
            error.fields[.acceptEncoding] = "identity"
            throw error
        }
        guard isJSON(headers[.contentType]) else {
            var error = HTTPError(
                415, "mediaTypeNotSupported",
                "A body must be JSON: send it with Content-Type: application/json.")
            error.fields[.accept] = "application/json"
            throw error
        }
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
