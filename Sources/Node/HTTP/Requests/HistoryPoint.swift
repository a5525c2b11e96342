// Points of history: tokens, times and vectors.

internal import Coordinator
internal import Merge

/// A point of history as a client names it.
enum HistoryPoint: Sendable {
    /// The state that a token of any node names.
    case token(QueryGenerationToken)
    /// All saves with timestamps up to a time, in milliseconds since 1970.
    case time(UInt64)
    /// The saves that a vector covers.
    case vector(VersionVector)

    /// Reads a token, a time in ISO 8601, or a vector as JSON; nil for anything else.
    init?(text: String) {
        if let milliseconds = ValueText.milliseconds(fromDate: text), milliseconds >= 0 {
            self = .time(UInt64(milliseconds))
        } else if text.hasPrefix("{"), let json = try? JSONParser.parse(Array(text.utf8)) {
            self.init(json)
        } else if let token = QueryGenerationToken(text: text) {
            self = .token(token)
        } else {
            return nil
        }
    }

    /// Reads the same of a request's body.
    init?(_ json: JSONValue) {
        if let text = json.string {
            self.init(text: text)
            return
        }
        guard let object = json.object else { return nil }
        var vector = VersionVector()
        for member in object.members {
            guard let sequence = member.value.integer, sequence > 0,
                let dot = Dot("\(member.key)-\(sequence)")
            else { return nil }
            vector.advance(to: dot)
        }
        self = .vector(vector)
    }

    static let expectation = "a token, a time such as 2026-01-31T12:00:00Z, or a vector"
}

extension JSONFields {
    /// A point of history.
    func point(_ key: String) throws(HTTPError) -> HistoryPoint? {
        guard let value = self[key] else { return nil }
        guard let point = HistoryPoint(value) else { throw wrong(key, HistoryPoint.expectation) }
        return point
    }
}

extension HTTPRequestParts {
    /// A point of history.
    func point(_ name: String) throws(HTTPError) -> HistoryPoint? {
        guard let text = parameter(name) else { return nil }
        guard let point = HistoryPoint(text: text) else {
            throw .malformed("\"\(name)\" must be \(HistoryPoint.expectation).")
        }
        return point
    }
}
