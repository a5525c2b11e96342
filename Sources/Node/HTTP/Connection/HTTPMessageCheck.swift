// The checks of RFC 9110 and 9112 that the parser leaves out.
//
// Functions without state.

internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1

/// Checks the heads of requests, and words what the parser refuses.
enum HTTPMessageCheck {
    /// Brings a request's target to the form that begins with a slash, and refuses what no server
    /// may guess at.
    ///
    /// - Throws: ``HTTPError``, after which nothing more can be read of the connection.
    static func normalise(_ head: inout HTTPRequestHead) throws(HTTPError) {
        let isOld = head.version.minor == 0
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

    /// The answer to a message that the parser refuses.
    ///
    /// - Parameter line: the beginning of the message, as far as it is known.
    static func refusal(_ error: HTTPParserError, line: HTTPFirstLine) -> HTTPError {
        switch error {
        case .invalidMethod where line.hasMethod: unknownMethod
        // It pauses at the preface of HTTP/2 alone.
        case .paused: unknownVersion
        case .invalidVersion where line.hasForeignVersion: unknownVersion
        case .headerOverflow where line.length > HTTPResponder.Limits.target: .addressTooLong
        case .headerOverflow:
            HTTPError(431, "headerTooLarge", "Address and header fields have more than 80 KiB.")
        default: .malformed("The request is not HTTP/1.1: \(error).")
        }
    }

    private static let unknownVersion = HTTPError(
        505, "versionNotSupported", "This node speaks HTTP/1.1.")

    /// A method that nobody has heard of.
    static let unknownMethod = HTTPError(
        501, "notSupported", "This method is not known here, to any address.")

    /// Methods that are known, be they possible anywhere or not.
    static let knownMethods: Set = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT",
    ]
}

/// The first line of a message before it is parsed: what of it tells why it was refused.
///
/// Of a message that follows another in one packet nothing is known.
struct HTTPFirstLine {
    /// Its bytes so far, those at its end included.
    private(set) var length = 0
    /// Whether it begins with what could be a method.
    private(set) var hasMethod = false
    private var isWhole = false
    private var end: [UInt8] = []

    /// No method is longer that anybody has heard of.
    private static let longestMethod = 40

    /// Takes more bytes of the message; those behind the line do not matter.
    mutating func append(_ bytes: ByteBufferView) {
        guard !isWhole else { return }
        if length == 0 {
            let word = bytes.prefix(Self.longestMethod).prefix { $0 != 0x20 }
            hasMethod =
                word.count < min(bytes.count, Self.longestMethod)
                && word.allSatisfy { (UInt8(0x41)...0x5A).contains($0 & 0xDF) || $0 == 0x2D }
        }
        var part = bytes
        if let place = bytes.firstIndex(of: 0x0A) {
            isWhole = true
            part = bytes[...place]
        }
        length += part.count
        end = (end + part.suffix(Self.versionLength)).suffix(Self.versionLength)
    }

    private static let versionLength = " HTTP/1.1\r\n".utf8.count

    /// Whether it ends with a version of HTTP that is another than 1.0 and 1.1.
    var hasForeignVersion: Bool {
        guard isWhole, end.count == Self.versionLength, end.suffix(2) == [0x0D, 0x0A] else {
            return false
        }
        let (name, digits) = (end.prefix(6), end.dropFirst(6).prefix(3))
        let isDigit = { (byte: UInt8) in (0x30...0x39).contains(byte) }
        return name.elementsEqual(" HTTP/".utf8)
            && isDigit(digits[6]) && digits[7] == 0x2E && isDigit(digits[8])
            && !digits.elementsEqual("1.0".utf8) && !digits.elementsEqual("1.1".utf8)
    }
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
