// Which web pages a node answers, and under which names it does so.
//
// A browser lets any page send requests to any address, this machine's own included. It names the
// page in `Origin`, and in `Host` the name that it has looked up, so that both can be checked here.
// Values only; may be used from any thread.

internal import HTTPTypes

/// The name and the port that a request is for, as `Host` has them.
struct RequestAuthority: Hashable, Sendable {
    /// In lower case, an address of IPv6 without brackets.
    let host: String
    /// Nil where none is named.
    let port: UInt16?

    /// Reads `host`, `host:port`, `[address]` or `[address]:port`; nil for other text.
    init?(_ text: String) {
        let lower = text.lowercased()
        let hasPort = lower.hasSuffix("]") ? false : lower.split(separator: "]").last?.contains(":")
        guard let address = HostAddress(hasPort == true ? lower : lower + ":0"),
            address.host != "*"
        else { return nil }
        host = address.host
        port = hasPort == true ? address.port : nil
    }

    /// Whether it is a name or an address that no other machine can have.
    var isLoopback: Bool {
        HostAddress(host: host, port: 0).isLoopback || host.hasSuffix(".localhost")
    }
}

/// The page that a request comes from, as `Origin` has it: `https://shop.example`.
struct RequestOrigin: Hashable, Sendable {
    /// `http` or `https`.
    let scheme: String
    /// The page's host.
    let host: String
    /// The page's port; that of the scheme where none is named.
    let port: UInt16

    /// Reads `http://host`, `https://host:port` and the like; nil for `null` and other text.
    init?(_ text: String) {
        let lower = text.lowercased()
        guard let scheme = ["http", "https"].first(where: { lower.hasPrefix($0 + "://") }),
            let authority = RequestAuthority(String(lower.dropFirst(scheme.count + 3)))
        else { return nil }
        self.scheme = scheme
        host = authority.host
        port = authority.port ?? Self.usualPort(scheme)
    }

    /// Whether a page of this origin was served by whom the request is for. The scheme counts only
    /// where this node speaks HTTPS itself: before one that does not there may be a proxy that does.
    func isSame(as authority: RequestAuthority, isSecure: Bool) -> Bool {
        guard !isSecure || scheme == "https" else { return false }
        return host == authority.host && port == authority.port ?? Self.usualPort(scheme)
    }

    private static func usualPort(_ scheme: String) -> UInt16 { scheme == "https" ? 443 : 80 }
}

/// Which requests a node answers, by the names in them.
struct OriginPolicy: Sendable {
    /// Names and addresses under which it answers, beside those of loopback; in lower case.
    let hosts: Set<String>
    /// Pages that may ask beside its own.
    let origins: Set<RequestOrigin>
    /// Whether it speaks HTTPS itself.
    let isSecure: Bool

    /// - Parameters:
    ///   - listen: where it listens: a name that it answers to.
    ///   - hosts: further names and addresses.
    init(listen: HostAddress, hosts: [String], origins: [RequestOrigin], isSecure: Bool) {
        var names = Set(hosts.map { $0.lowercased() })
        if !listen.isEverywhere { names.insert(listen.host.lowercased()) }
        self.hosts = names
        self.origins = Set(origins)
        self.isSecure = isSecure
    }

    /// Refuses a request under a foreign name, as pages send it whose name was made to lead here.
    ///
    /// - Parameter authority: what `Host` has; nil where HTTP/1.0 has none, which no browser speaks.
    /// - Throws: ``HTTPError``: 421 `hostRefused`.
    func check(authority: String?) throws(HTTPError) {
        guard let authority else { return }
        if let named = RequestAuthority(authority),
            named.isLoopback || hosts.contains(named.host)
        {
            return
        }
        throw HTTPError(
            421, "hostRefused",
            "This node has no tokens, so it answers only as localhost, 127.0.0.1 or [::1]. "
                + "Ask it under one of these, or add the host of the address to http.hosts.")
    }

    /// Refuses a request of a foreign page.
    ///
    /// - Returns: the origin that must be named in the answer, so that its page gets to read it; nil
    ///   for the node's own pages and where no page asks.
    /// - Throws: ``HTTPError``: 403 `originRefused`.
    func allowedOrigin(_ field: String?, authority: String?) throws(HTTPError) -> String? {
        guard let field else { return nil }
        if let origin = RequestOrigin(field) {
            if let named = authority.flatMap(RequestAuthority.init),
                origin.isSame(as: named, isSecure: isSecure)
            {
                return nil
            }
            if origins.contains(origin) { return field }
        }
        throw HTTPError(
            403, "originRefused",
            "This node does not answer web pages of that origin; add it to http.origins.")
    }
}

extension OriginPolicy {
    /// The answer to a browser's request before a page's own, if `HTTPResponder` has let the origin
    /// through. It is the same for every address, so that nobody learns from it without a token
    /// what is there.
    static let preflight: [(HTTPField.Name, String)] = [
        (.accessControlAllowMethods, "GET, HEAD, POST, PUT, DELETE"),
        (.accessControlAllowHeaders, "Authorization, Content-Type, Accept, Last-Event-ID"),
        (.accessControlMaxAge, "600"),
    ]

    /// Adds what lets a page read an answer.
    func addFields(to headers: inout HTTPFields, allowing origin: String?) {
        if !origins.isEmpty { headers[.vary] = "Origin" }
        guard let origin else { return }
        headers[.accessControlAllowOrigin] = origin
        headers[.accessControlExposeHeaders] = "Allow, Retry-After, WWW-Authenticate"
    }
}
