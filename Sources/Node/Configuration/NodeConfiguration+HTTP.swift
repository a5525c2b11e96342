// Reading the group `http` of a configuration.
//
// Functions without state.

internal import Merge

extension NodeConfiguration {
    /// More tokens than people can keep apart.
    static let maximumTokens = 64

    /// More names and pages than a node can have.
    static let maximumNames = 64

    static func readHTTP(
        _ group: Setting?, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> HTTP {
        let reader = try SettingsReader(
            group, path: "http", origin: file,
            known: [
                "listen", "tokenFile", "tokens", "tls", "insecure", "maxBodyBytes",
                "maxConnections", "maxAnswerBytes", "slowClientSeconds", "headerTimeoutSeconds",
                "bodyTimeoutSeconds", "hosts", "origins", "inspector",
            ], outside: outside)
        var http = HTTP()
        if let listen = try reader.optional("listen") {
            http.listen = try listen.parsed("host:port, such as 127.0.0.1:7100") { HostAddress($0) }
        }
        if let tokenFile = try reader.optional("tokenFile") {
            http.tokenFile = try path(tokenFile, file: file)
        }
        if let tokens = try list(reader, "tokens", form: "[{file: ..., scope: read}]") {
            http.tokens = try readTokens(tokens, file: file)
        }
        http.tls = try readTLS(reader.group("tls"), file: file, outside: outside)
        if let insecure = try reader.optional("insecure") { http.insecure = try insecure.boolean() }
        if let flag = try reader.optional("inspector") { http.inspector = try flag.boolean() }
        if let bytes = try reader.optional("maxBodyBytes") {
            http.maxBodyBytes = try bytes.integer(1024...(1 << 30))
        }
        if let connections = try reader.optional("maxConnections") {
            http.maxConnections = try connections.integer(1...100_000)
        }
        if let seconds = try reader.optional("headerTimeoutSeconds") {
            http.headerTimeoutSeconds = try seconds.integer(1...3_600)
        }
        if let seconds = try reader.optional("bodyTimeoutSeconds") {
            http.bodyTimeoutSeconds = try seconds.integer(1...3_600)
        }
        http.hosts = try names(reader, "hosts", "a host, such as shop.example", "[shop.example]") {
            RequestAuthority($0).flatMap { $0.port == nil ? $0.host : nil }
        }
        http.origins = try names(
            reader, "origins", "an origin, such as https://shop.example", "[https://shop.example]"
        ) { RequestOrigin($0) == nil ? nil : $0 }
        if let bytes = try reader.optional("maxAnswerBytes") {
            http.maxAnswerBytes = try bytes.integer((64 << 20)...(16 << 30))
        }
        if let seconds = try reader.optional("slowClientSeconds") {
            http.slowClientSeconds = try seconds.integer(1...3_600)
        }
        guard !http.listen.isLoopback else { return http }
        let listen = try reader.required("listen")
        guard http.tokenFile != nil || !http.tokens.isEmpty else {
            throw listen.failure(
                "can be reached from other machines: set http.tokenFile or http.tokens, "
                    + "or listen on 127.0.0.1")
        }
        guard http.tls != nil || http.insecure else {
            throw listen.failure(
                "can be reached from other machines, and tokens would go there in clear: "
                    + "set http.tls, or listen on 127.0.0.1 behind a proxy that has it, "
                    + "or set http.insecure to allow it")
        }
        return http
    }

    /// A list of texts, each as `read` gives it.
    private static func names(
        _ reader: SettingsReader, _ name: String, _ form: String, _ example: String,
        _ read: (String) -> String?
    ) throws(NodeError) -> [String] {
        guard let list = try list(reader, name, form: example) else { return [] }
        let elements = try list.elements()
        guard elements.count <= maximumNames else {
            throw list.failure(
                "has \(elements.count) elements; at most \(maximumNames) are possible")
        }
        var names: [String] = []
        for element in elements { names.append(try element.parsed(form, read)) }
        return names
    }

    private static func readTokens(
        _ list: Setting, file: String
    ) throws(NodeError) -> [TokenFile] {
        let elements = try list.elements()
        guard elements.count <= maximumTokens else {
            throw list.failure(
                "has \(elements.count) tokens; at most \(maximumTokens) are possible")
        }
        var tokens: [TokenFile] = []
        for element in elements {
            let reader = try SettingsReader(
                element, path: element.key, origin: element.origin,
                known: ["file", "scope", "name"], outside: nil)
            let scopes = HTTPScope.allCases.map(\.rawValue).joined(separator: ", ")
            let scope = try reader.required("scope").parsed("one of \(scopes)") {
                HTTPScope(rawValue: $0)
            }
            let tokenFile = try path(try reader.required("file"), file: file)
            let name = try reader.optional("name")?.text() ?? scope.rawValue
            tokens.append(TokenFile(file: tokenFile, scope: scope, name: name))
        }
        return tokens
    }

    /// The files of TLS: `certificateFile` and `keyFile`, or `certificate` and `key`.
    private static func readTLS(
        _ group: Setting?, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> TLS? {
        let reader = try SettingsReader(
            group, path: "http.tls", origin: file,
            known: ["certificateFile", "keyFile", "certificate", "key"], outside: outside)
        let certificate = try either("certificateFile", "certificate", reader)
        let key = try either("keyFile", "key", reader)
        switch (certificate, key) {
        case (nil, nil):
            guard let group else { return nil }
            throw group.failure("needs certificateFile and keyFile")
        case (let certificate?, let key?):
            return TLS(
                certificateFile: try path(certificate, file: file),
                keyFile: try path(key, file: file))
        case (let one?, nil): throw one.failure("needs http.tls.keyFile beside it")
        case (nil, let one?): throw one.failure("needs http.tls.certificateFile beside it")
        }
    }

    /// A setting that has two names. Under whichever it is outside the file, it goes before the file.
    private static func either(
        _ name: String, _ other: String, _ reader: SettingsReader
    ) throws(NodeError) -> Setting? {
        guard let first = try reader.optional(name) else { return try reader.optional(other) }
        guard let second = try reader.optional(other) else { return first }
        // Only what the file says has a line.
        switch (first.line, second.line) {
        case (nil, .some): return first
        case (.some, nil): return second
        default: throw second.failure("is set, and \(name) too")
        }
    }
}
