// The configuration of a node: the settings of its YAML file, after overrides.
//
// Values only; may be used from any thread. NodeConfiguration+YAML.swift reads them.

public import Coordinator
public import Merge
internal import Replication

/// The settings of a node.
public struct NodeConfiguration: Hashable, Sendable {
    /// A file with a token, and what the token is good for.
    public struct TokenFile: Hashable, Sendable {
        /// The file, mode 0600.
        public var file: String
        /// The bearer's permissions.
        public var scope: HTTPScope
        /// The token's name for people.
        public var name: String

        /// Describes a token's file.
        public init(file: String, scope: HTTPScope, name: String) {
            self.file = file
            self.scope = scope
            self.name = name
        }
    }

    /// The files of an HTTPS interface.
    public struct TLS: Hashable, Sendable {
        /// The node's certificate and what leads from it to a root, PEM.
        public var certificateFile: String
        /// The certificate's private key, PEM, mode 0600.
        public var keyFile: String

        /// Describes the two files.
        public init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// The HTTP interface.
    public struct HTTP: Hashable, Sendable {
        /// Where it listens; by default 127.0.0.1:7100.
        public var listen = HostAddress(host: "127.0.0.1", port: 7100)
        /// A file, mode 0600, with a token for everything; off loopback there must be a token.
        public var tokenFile: String?
        /// Further tokens, each with what it is good for.
        public var tokens: [TokenFile] = []
        /// Certificate and key; nil for HTTP without TLS.
        public var tls: TLS?
        /// Whether addresses off loopback may be bound without TLS; by default not.
        public var insecure = false
        /// The greatest body of a request in bytes, 1 KiB...1 GiB; by default 16 MiB.
        public var maxBodyBytes = 16 << 20
        /// Whether the inspector's page is served at `/`; by default it is.
        public var inspector = true
        /// Names and addresses under which a node without tokens answers, beside those of loopback.
        public var hosts: [String] = []
        /// Pages of other origins that may ask, such as `https://shop.example`.
        public var origins: [String] = []
        /// How many connections may be open, 1...100,000; by default 1,024.
        public var maxConnections = 1024
        /// The bytes of all answers being made or sent, 64 MiB...16 GiB; by default 128 MiB.
        public var maxAnswerBytes = 128 << 20
        /// How long a client may take nothing of its answer, in seconds, 1...3,600; by default 30.
        public var slowClientSeconds = 30
        /// How long a request's header may take, 1...3,600; by default 10.
        public var headerTimeoutSeconds = 10
        /// How long a request's body may take, beside a second for each 16 KiB, 1...3,600; by default 60.
        public var bodyTimeoutSeconds = 60

        /// The defaults.
        public init() {}
    }

    /// The mesh between nodes.
    public struct Mesh: Hashable, Sendable {
        /// Where this node publishes.
        public var publish: MeshEndpoint
        /// Where this node takes questions.
        public var exchange: MeshEndpoint
        /// Where others reach `publish`, if that is not the address bound.
        public var advertisePublish: MeshEndpoint?
        /// Where others reach `exchange`, if that is not the address bound.
        public var advertiseExchange: MeshEndpoint?
        /// The local address to connect from; nil lets the system choose.
        public var source: String?
        /// A file, mode 0600, with this node's secret key; nil for a mesh without CURVE.
        public var secretKeyFile: String?
        /// Whether addresses off loopback may be bound without keys; by default not.
        public var insecure = false
        /// The most that this node, while it is saved to, gives of copies of its store in a
        /// second, in bytes; 0 for no bound.
        public var transferBytesPerSecond: UInt64 = Limits().transferBytesPerSecond
        /// The peers to begin with; later the membership is replicated data.
        public var peers: [MeshPeer] = []

        /// Describes a mesh of one.
        public init(publish: MeshEndpoint, exchange: MeshEndpoint) {
            self.publish = publish
            self.exchange = exchange
        }
    }

    /// The name of the cluster: 1...63 of a-z, 0-9, `-` and `.`; part of every object's URI.
    public var cluster: String
    /// This node's number.
    public var node: NodeID
    /// The store's file; created when absent.
    public var store: String
    /// The model's file.
    public var model: String
    /// The HTTP interface.
    public var http = HTTP()
    /// The mesh; nil for a node by itself.
    public var mesh: Mesh?
    /// How much history and how many closed conflicts are kept.
    public var history = HistoryLimits()
    /// Whether history has an index by author and entity.
    public var indexesHistory = false

    /// Describes a node by itself.
    public init(cluster: String, node: NodeID, store: String, model: String) {
        self.cluster = cluster
        self.node = node
        self.store = store
        self.model = model
    }

    /// Values that flags give; they go before the environment, which goes before the file.
    public struct Overrides: Hashable, Sendable {
        /// `--cluster`
        public var cluster: String?
        /// `--node-number`
        public var node: String?
        /// `--store`; relative to the current directory.
        public var store: String?
        /// `--model`; relative to the current directory.
        public var model: String?
        /// `--listen`
        public var listen: String?
        /// `--publish`
        public var publish: String?
        /// `--exchange`
        public var exchange: String?
        /// `--insecure`
        public var insecure: Bool?

        /// Overrides nothing.
        public init() {}

        /// The flag and the value for a key, or nil where the flag was not given.
        func value(for key: String) -> (flag: String, text: String)? {
            let (flag, text): (String, String?) =
                switch key {
                case "cluster": ("--cluster", cluster)
                case "node": ("--node-number", node)
                case "store": ("--store", store)
                case "model": ("--model", model)
                case "http.listen": ("--listen", listen)
                case "mesh.publish": ("--publish", publish)
                case "mesh.exchange": ("--exchange", exchange)
                case "mesh.insecure", "http.insecure":
                    ("--insecure", insecure.map { $0 ? "true" : "false" })
                default: ("", nil)
                }
            return text.map { (flag, $0) }
        }
    }

    /// Reads the token of `http.tokenFile`; nil where none is set.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    public func readToken() throws(NodeError) -> String? {
        guard let file = http.tokenFile else { return nil }
        return try Self.token(in: file, key: "http.tokenFile")
    }

    /// Reads all tokens that requests may bear; that of `http.tokenFile` is good for everything.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    package func readTokens() throws(NodeError) -> [HTTPToken] {
        var tokens: [HTTPToken] = []
        if let token = try readToken() {
            tokens.append(HTTPToken(secret: token, scope: .admin, name: "tokenFile"))
        }
        for (index, entry) in http.tokens.enumerated() {
            let key = "http.tokens[\(index)].file"
            let token = try Self.token(in: entry.file, key: key)
            guard !tokens.contains(where: { $0.secret == token }) else {
                throw NodeError(
                    .secretUnreadable, "\(key): \(entry.file) holds the same token as another file",
                    context: ["key": key, "file": entry.file])
            }
            tokens.append(HTTPToken(secret: token, scope: entry.scope, name: entry.name))
        }
        return tokens
    }

    /// Reads a token from a file that only its owner may read.
    ///
    /// - Parameter key: the setting or the flag that names the file.
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    public static func token(in file: String, key: String) throws(NodeError) -> String {
        let token = try SecretFile.read(file, key: key)
        guard (16...1024).contains(token.utf8.count),
            token.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw SecretFile.unreadable(
                file, key: key, "holds no token: a line of 16 to 1024 visible ASCII characters")
        }
        return token
    }

    /// Reads this node's keys; nil for a mesh without CURVE.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    package func readKeys() throws(NodeError) -> CurveKeys? {
        guard let file = mesh?.secretKeyFile else { return nil }
        return try CurveKeys.read(secretFile: file, key: "mesh.secretKeyFile")
    }

    /// The settings of this node's transport; nil for a node by itself.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    package func transportSettings() throws(NodeError) -> ZeroMQTransport.Settings? {
        transportSettings(keys: try readKeys())
    }

    /// The same, with keys that were read already.
    func transportSettings(keys: CurveKeys?) -> ZeroMQTransport.Settings? {
        guard let mesh else { return nil }
        var settings = ZeroMQTransport.Settings(
            node: node, publish: mesh.publish, exchange: mesh.exchange)
        settings.source = mesh.source
        settings.keys = keys
        settings.listed = mesh.peers
        settings.isInsecure = mesh.insecure
        return settings
    }
}
