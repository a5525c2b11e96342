// Reads the members of a request's object strictly: what is unknown is an error that names it.

internal import Coordinator

/// The members of one JSON object of a request, with the object's path for messages.
struct JSONFields {
    let object: JSONObject
    /// Where in the request, such as `operations[2].`; empty at the top.
    let path: String

    /// Takes an object whose members are all known.
    ///
    /// - Throws: ``HTTPError`` (malformed) for anything else, naming the member with its path.
    init(_ value: JSONValue, path: String = "", allowed: [String]) throws(HTTPError) {
        guard case .object(let object) = value else {
            let place = path.isEmpty ? "The body" : String(path.dropLast())
            throw .malformed("\(place) must be an object, not \(value.kind).")
        }
        for member in object.members where !allowed.contains(member.key) {
            throw .malformed("Unknown field \"\(path)\(member.key)\".")
        }
        self.object = object
        self.path = path
    }

    /// A member; nil where it is absent or null.
    subscript(key: String) -> JSONValue? {
        guard let value = object[key], value != .null else { return nil }
        return value
    }

    func wrong(_ key: String, _ expectation: String) -> HTTPError {
        .malformed("\"\(path)\(key)\" must be \(expectation).")
    }

    func string(_ key: String) throws(HTTPError) -> String? {
        guard let value = self[key] else { return nil }
        guard let text = value.string else { throw wrong(key, "a string") }
        return text
    }

    func boolean(_ key: String) throws(HTTPError) -> Bool {
        guard let value = self[key] else { return false }
        guard let truth = value.boolean else { throw wrong(key, "true or false") }
        return truth
    }

    /// A count, at least the least that makes sense.
    func count(_ key: String, atLeast least: Int64 = 0) throws(HTTPError) -> Int? {
        guard let value = self[key] else { return nil }
        guard let number = value.integer, number >= least, let count = Int(exactly: number) else {
            throw wrong(key, "an integer of at least \(least)")
        }
        return count
    }

    func array(_ key: String) throws(HTTPError) -> [JSONValue]? {
        guard let value = self[key] else { return nil }
        guard let values = value.array else { throw wrong(key, "an array") }
        return values
    }

    func strings(_ key: String) throws(HTTPError) -> [String]? {
        guard let values = try array(key) else { return nil }
        var result: [String] = []
        result.reserveCapacity(values.count)
        for value in values {
            guard let text = value.string else { throw wrong(key, "an array of strings") }
            result.append(text)
        }
        return result
    }

    /// A time-out in seconds, 0...3,600; by default 10.
    func timeout(_ key: String = "timeoutSeconds") throws(HTTPError) -> Duration {
        let seconds: Double
        switch self[key] {
        case nil: return .seconds(10)
        case .integer(let number)?: seconds = Double(number)
        case .double(let number)?: seconds = number
        default: throw wrong(key, "a number of seconds")
        }
        guard (0...3_600).contains(seconds) else {
            throw wrong(key, "a number of seconds from 0 to 3600")
        }
        return .milliseconds(Int64(seconds * 1000))
    }

    func token(_ key: String) throws(HTTPError) -> QueryGenerationToken? {
        guard let text = try string(key) else { return nil }
        guard let token = QueryGenerationToken(text: text) else {
            throw wrong(key, "a token as this interface gives them")
        }
        return token
    }
}
