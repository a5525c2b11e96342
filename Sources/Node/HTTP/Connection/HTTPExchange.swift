// A request as the resources see it, and their answer.

internal import Coordinator
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore

/// A request, taken apart and bounded.
struct HTTPRequestParts: Sendable {
    /// The parts of the path, percent-decoded.
    var segments: [String]
    /// The query's parameters, percent-decoded, each once.
    var query: [(name: String, value: String)]
    /// The body; at most as long as the limit.
    var body: [UInt8]
    /// The form of the body.
    var format = BodyFormat.json
    /// The form of the answer, where the endpoint has both.
    var answerFormat = BodyFormat.json
    /// Whether the client wants newline-delimited JSON.
    var wantsLines = false
    /// The last event that a client of the change feed has.
    var lastEventID: String?
    /// The version of a file that a client has (`If-None-Match`).
    var knownVersion: String?
    /// Whether the request would still be let in. What goes on for long asks again and again: its
    /// token may be withdrawn meanwhile.
    var isStillAllowed: @Sendable () -> Bool = { true }

    /// The value that the body is, as JSON or in the form that says the same.
    func json(maximumBytes: Int) throws -> JSONValue {
        try format.parse(body, maximumBytes: maximumBytes)
    }

    /// A parameter; nil where it is absent.
    func parameter(_ name: String) -> String? { query.first { $0.name == name }?.value }

    /// Refuses parameters that the endpoint does not take.
    func allowParameters(_ names: [String]) throws(HTTPError) {
        for (name, _) in query where !names.contains(name) {
            throw .malformed("Unknown parameter \"\(name)\".")
        }
    }

    func token(_ name: String) throws(HTTPError) -> QueryGenerationToken? {
        guard let text = parameter(name) else { return nil }
        guard let token = QueryGenerationToken(text: text) else {
            throw .malformed("\"\(name)\" must be a token as this interface gives them.")
        }
        return token
    }

    func boolean(_ name: String) throws(HTTPError) -> Bool? {
        switch parameter(name) {
        case nil: return nil
        case "true": return true
        case "false": return false
        default: throw .malformed("\"\(name)\" must be true or false.")
        }
    }

    func count(_ name: String, atLeast least: Int) throws(HTTPError) -> Int? {
        guard let text = parameter(name) else { return nil }
        guard text.utf8.count <= 10, let number = Int(text), number >= least else {
            throw .malformed("\"\(name)\" must be an integer of at least \(least).")
        }
        return number
    }

    /// A time-out in seconds, 0...3,600; by default 10.
    func timeout() throws(HTTPError) -> Duration {
        guard let text = parameter("timeoutSeconds") else { return .seconds(10) }
        guard let seconds = Double(text), (0...3_600).contains(seconds) else {
            throw .malformed("\"timeoutSeconds\" must be a number of seconds from 0 to 3600.")
        }
        return .milliseconds(Int64(seconds * 1000))
    }
}

/// An answer.
struct HTTPAnswer: Sendable {
    /// Writes a part of a stream; waits where the client is slow.
    typealias Write = (ByteBuffer) async throws -> Void

    enum Body: Sendable {
        case whole([UInt8])
        case budgeted(BudgetedAnswer)
        case stream(@Sendable (Write) async throws -> Void)
    }

    var status = 200
    var contentType = "application/json"
    /// Header fields beside those that every answer has.
    var fields = HTTPFields()
    var body: Body

    static func json(_ bytes: [UInt8]) -> HTTPAnswer { HTTPAnswer(body: .whole(bytes)) }

    static func json(_ value: JSONValue) -> HTTPAnswer { .json(JSONWriter.bytes(of: value)) }

    static func value(_ value: JSONValue, as format: BodyFormat) -> HTTPAnswer {
        HTTPAnswer(contentType: format.mediaType, body: .whole(format.bytes(of: value)))
    }
}

/// Takes a request's target apart.
enum RequestTarget {
    /// Path and query of a target such as `/v1/objects/Person/p1?versions=true`.
    ///
    /// - Throws: ``HTTPError`` (malformed) for percent signs that encode nothing, text that is
    ///   not UTF-8, and parameters that occur twice.
    static func parse(
        _ target: String
    ) throws(HTTPError) -> (segments: [String], query: [(name: String, value: String)]) {
        // Byte by byte: a mark that combines with a separator makes another character of it.
        let halves = target.utf8.split(
            separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        var segments: [String] = []
        for part in halves[0].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .dropFirst()
        {
            segments.append(try decode(part, plusIsSpace: false))
        }
        var query: [(name: String, value: String)] = []
        guard halves.count == 2 else { return (segments, query) }
        for part in halves[1].split(separator: UInt8(ascii: "&")) {
            let sides = part.split(
                separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = try decode(sides[0], plusIsSpace: true)
            guard !query.contains(where: { $0.name == name }), query.count < 32 else {
                throw .malformed("The parameter \"\(name)\" occurs twice, or there are too many.")
            }
            let value = sides.count == 2 ? try decode(sides[1], plusIsSpace: true) : ""
            query.append((name, value))
        }
        return (segments, query)
    }

    private static func decode(
        _ text: Substring.UTF8View, plusIsSpace: Bool
    ) throws(HTTPError) -> String {
        guard text.contains(where: { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "+") })
        else { return String(Substring(text)) }
        var bytes: [UInt8] = []
        var iterator = text.makeIterator()
        while let byte = iterator.next() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = iterator.next().flatMap(digit),
                    let low = iterator.next().flatMap(digit)
                else { throw .malformed("A percent sign in the address encodes nothing.") }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw .malformed("The address is not UTF-8.")
        }
        return decoded
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }
}
