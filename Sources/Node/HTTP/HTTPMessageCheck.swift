// What RFC 9110 and 9112 refuse in a message, where the parser lets it through.
//
// Functions without state.

internal import HTTPTypes
internal import NIOHTTP1

/// Checks the heads of requests, and words what the parser refuses.
enum HTTPMessageCheck {
    /// Brings a request's target to the form that begins with a slash, and refuses what no server
    /// may guess at.
    ///
    /// - Throws: ``HTTPError``, after which nothing more can be read of the connection.
    static func normalise(_ head: inout HTTPRequestHead) throws(HTTPError) {
        let isOld = head.version.major == 1 && head.version.minor == 0
        let hosts = head.headers["Host"]
        guard hosts.count <= 1, isOld || hosts.count == 1 else {
            throw .malformed("A request has exactly one field Host.")
        }
        guard hosts.allSatisfy(isAuthority) else { throw .malformed("Host names no host.") }
        try checkFraming(head, isOld: isOld)
        let expectations = head.headers["Expect"]
        if isOld {
            head.headers.remove(name: "Expect")
        } else if let other = expectations.first(where: { $0.lowercased() != "100-continue" }) {
            throw HTTPError(
                417, "expectationFailed",
                "\"\(other.prefix(40))\" cannot be met, only 100-continue.")
        }
        try normaliseTarget(&head)
    }

    private static func checkFraming(_ head: HTTPRequestHead, isOld: Bool) throws(HTTPError) {
        let codings = head.headers["Transfer-Encoding"]
        guard !codings.isEmpty else { return }
        guard !isOld, !head.headers.contains(name: "Content-Length") else {
            throw .malformed("Where the body ends is said in two ways, or not in HTTP/1.0's.")
        }
        guard codings.count == 1, codings[0].lowercased() == "chunked" else {
            throw .notSupported("Of transfer codings only \"chunked\" is known here.")
        }
    }

    private static func normaliseTarget(_ head: inout HTTPRequestHead) throws(HTTPError) {
        let target = head.uri
        guard !target.utf8.contains(UInt8(ascii: "#")) else {
            throw .malformed("An address that is asked for has no fragment.")
        }
        if target.hasPrefix("/") || head.method == .CONNECT { return }
        if target == "*", head.method == .OPTIONS { return }
        let lower = target.prefix(8).lowercased()
        guard let scheme = ["http://", "https://"].first(where: { lower.hasPrefix($0) }) else {
            throw .malformed("The address must begin with \"/\".")
        }
        // RFC 9112, section 3.2.2: what the address names goes before Host.
        let rest = target.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard !authority.isEmpty, isAuthority(String(authority)) else {
            throw .malformed("The address names no host.")
        }
        let path = rest.dropFirst(authority.count)
        head.headers.replaceOrAdd(name: "Host", value: String(authority))
        if path.isEmpty, head.method == .OPTIONS {
            head.uri = "*"
        } else {
            head.uri = path.hasPrefix("/") ? String(path) : "/\(path)"
        }
    }

    /// Whether a text has nothing but what a host and a port may consist of.
    private static func isAuthority(_ text: String) -> Bool {
        text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "-._~!$&'()*+;=:[]%".utf8.contains(byte)
            }
        }
    }

    /// What a client is told of a message that the parser refuses.
    ///
    /// - Parameters:
    ///   - isFirstLineWhole: whether the end of the first line has come.
    ///   - hasMethod: whether it begins with what could be a method.
    static func refusal(
        _ error: HTTPParserError, isFirstLineWhole: Bool, hasMethod: Bool
    ) -> HTTPError {
        switch error {
        case .invalidMethod where hasMethod: unknownMethod
        case .invalidVersion: HTTPError(505, "versionNotSupported", "This node speaks HTTP/1.1.")
        case .headerOverflow where !isFirstLineWhole: .addressTooLong
        case .headerOverflow:
            HTTPError(431, "headerTooLarge", "Address and header fields have more than 80 KiB.")
        default: .malformed("The request is not HTTP/1.1: \(error).")
        }
    }

    /// A method that nobody has heard of.
    static let unknownMethod = HTTPError(
        501, "notSupported", "This method is not known here, to any address.")

    /// Methods that are known, be they possible anywhere or not.
    static let knownMethods: Set = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT",
    ]
}

extension HTTPError {
    /// A target that is longer than any of this interface.
    static let addressTooLong = HTTPError(
        414, "addressTooLong", "The address has more than 64 KiB.")
}

/// The time as HTTP writes it.
enum HTTPDate {
    /// Such as `Fri, 27 Nov 2026 04:44:34 GMT`.
    ///
    /// - Parameter seconds: since 1970.
    static func text(_ seconds: UInt64) -> String {
        let (days, second) = (Int(seconds / 86_400), Int(seconds % 86_400))
        let week = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ]
        // Years begin in March here, so that a leap day is the last of one.
        let shifted = days + 719_468
        let (era, day) = (shifted / 146_097, shifted % 146_097)
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365
        let dayOfYear = day - (365 * year + year / 4 - year / 100)
        let month = (5 * dayOfYear + 2) / 153
        let calendarMonth = month < 10 ? month + 3 : month - 9
        let calendarYear = era * 400 + year + (calendarMonth <= 2 ? 1 : 0)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(week[days % 7]), \(two(dayOfYear - (153 * month + 2) / 5 + 1)) "
            + "\(months[calendarMonth - 1]) \(calendarYear) "
            + "\(two(second / 3_600)):\(two(second / 60 % 60)):\(two(second % 60)) GMT"
    }
}
