// Bearer tokens and their scopes.
//
// Values only; may be used from any thread. A token is never printed and never part of an error.

internal import Coordinator

/// The permissions of a token; each scope has those below it.
public enum HTTPScope: String, CaseIterable, Comparable, Sendable {
    /// Everything that changes nothing: fetching, pinned generations, history, conflicts, status.
    case read
    /// Saves, and resolving conflicts.
    case write
    /// Changes of the node or the cluster itself.
    case admin

    /// Orders scopes by what they let in.
    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .write: 1
        case .admin: 2
        }
    }
}

/// A token that requests may bear.
package struct HTTPToken: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    /// The permissions of its bearer.
    package let scope: HTTPScope
    /// The token's name for people; never the token itself.
    package let name: String
    let secret: String

    /// Describes a token.
    ///
    /// - Parameters:
    ///   - secret: the token: 16 to 1024 visible ASCII characters.
    ///   - scope: what it lets its bearer do.
    ///   - name: what people call it.
    package init(secret: String, scope: HTTPScope, name: String = "") {
        self.secret = secret
        self.scope = scope
        self.name = name
    }

    /// Writes a new token of 256 random bits to a new file with the mode 0600.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable` where the file is there or cannot be made.
    package static func writeNew(to file: String) throws(NodeError) {
        var generator = SystemRandomNumberGenerator()
        let words = (0..<4).map { _ in
            let digits = String(UInt64.random(in: .min ... .max, using: &generator), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        try SecretFile.create(file, text: words.joined() + "\n")
    }

    /// Name and scope; the token is never printed.
    package var description: String { "token \(name) for \(scope.rawValue)" }
    /// The same, so that no dump of a value shows the token.
    package var debugDescription: String { description }
    /// The same.
    package var customMirror: Mirror {
        Mirror(self, children: ["name": name, "scope": scope.rawValue])
    }
}

/// The tokens of a node.
struct HTTPAccess: Sendable {
    private struct Entry {
        let bytes: [UInt8]
        let token: HTTPToken
    }

    private let entries: [Entry]

    init(_ tokens: [HTTPToken]) {
        entries = tokens.map { Entry(bytes: Array($0.secret.utf8), token: $0) }
    }

    /// Whether anybody may ask for anything: a node on loopback without tokens.
    var isOpen: Bool { entries.isEmpty }

    /// The token that the field `Authorization` bears; nil where it bears none that is known.
    ///
    /// Takes a time that depends on what was sent and on the number of tokens only, not on how much
    /// was right. Of equal tokens the one of the greatest scope counts.
    func token(inField field: String?) -> HTTPToken? {
        // The scheme may be in either case (RFC 9110, section 11.1).
        let scheme = "Bearer "
        guard let field, field.prefix(scheme.count).lowercased() == scheme.lowercased() else {
            return nil
        }
        let shown = Array(field.dropFirst(scheme.count).utf8)
        var found: HTTPToken?
        for entry in entries {
            let isSame = Self.isSame(shown, entry.bytes)
            if isSame, found.map({ $0.scope < entry.token.scope }) ?? true { found = entry.token }
        }
        return found
    }

    /// Refuses a request whose token does not reach.
    ///
    /// - Throws: ``HTTPError``: 401 `unauthorized`, and 403 `forbidden` with the scope that it
    ///   needs. `needed` nil asks for any token.
    func check(field: String?, needs needed: HTTPScope?) throws(HTTPError) {
        guard !isOpen else { return }
        guard let token = token(inField: field) else {
            throw HTTPError(
                401, "unauthorized",
                field == nil
                    ? "This node wants a token: send Authorization: Bearer TOKEN."
                    : "This node does not know that token.")
        }
        guard let needed, token.scope < needed else { return }
        throw HTTPError(
            403, "forbidden",
            "This token is for \(token.scope.rawValue) only; this needs one for \(needed.rawValue).",
            details: [
                "scope": .string(token.scope.rawValue), "needed": .string(needed.rawValue),
            ])
    }

    private static func isSame(_ shown: [UInt8], _ known: [UInt8]) -> Bool {
        var difference = shown.count ^ known.count
        for index in shown.indices {
            difference |= Int(shown[index] ^ known[index % known.count])
        }
        return difference == 0
    }
}
