// Where a node listens, as its URL says it. Values only; nothing is looked up here.

/// The host, the port and the scheme of `http://host:port` or `https://host:port`.
struct NodeAddress: Hashable, Sendable, CustomStringConvertible {
    /// The name or number of the host, without brackets.
    let host: String
    let port: UInt16
    /// Whether the node is asked over TLS.
    let isSecure: Bool

    /// Reads a URL, with or without a slash at its end. Without a port it is the scheme's own.
    ///
    /// - Throws: ``ClientError`` with `requestInvalid` where it is something else.
    init(url: String) throws(ClientError) {
        let failure = ClientError(
            .requestInvalid, "\(url) is not http://host:port or https://host:port")
        isSecure = url.hasPrefix("https://")
        guard isSecure || url.hasPrefix("http://") else { throw failure }
        var rest = url.dropFirst(isSecure ? 8 : 7)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        // The colons within brackets belong to an address of version 6.
        let colon = rest.hasSuffix("]") ? nil : rest.lastIndex(of: ":")
        let name = rest[..<(colon ?? rest.endIndex)]
        let digits = colon.map { rest[rest.index(after: $0)...] } ?? (isSecure ? "443" : "80")
        guard digits.utf8.count <= 5, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(digits), port > 0
        else { throw failure }
        self.port = port
        let isBracketed = name.hasPrefix("[") && name.hasSuffix("]") && name.contains(":")
        host = String(isBracketed ? name.dropFirst().dropLast() : name)
        guard Self.isHost(host, also: isBracketed ? ":%" : "") else { throw failure }
    }

    /// As the `Host` field of a request has it.
    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    private static func isHost(_ text: String, also extra: String) -> Bool {
        (1...253).contains(text.utf8.count) && !text.hasPrefix("-")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: extra.utf8.contains(byte)
                }
            }
    }
}
