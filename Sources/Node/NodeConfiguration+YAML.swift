// Reading a configuration: the YAML file, overridden by the environment, overridden by flags.
//
// Functions without state; they block on the disk.

internal import Glibc
internal import Merge
internal import Yams

extension NodeConfiguration {
    /// No configuration is longer; a larger file is something else.
    static let maximumFileBytes = 1 << 20
    /// More peers than a mesh of this kind can have.
    static let maximumPeers = 256

    /// Reads a configuration.
    ///
    /// - Parameters:
    ///   - file: the YAML file. Relative paths in it are relative to its folder; those in flags and
    ///     in the environment to the current one.
    ///   - environment: variables such as TRIBUTARY_HTTP_LISTEN.
    ///   - overrides: what flags say.
    /// - Throws: ``NodeError`` with `configurationInvalid`, which names file, key, line and reason.
    public static func read(
        file: String, environment: [String: String] = [:], overrides: Overrides = Overrides()
    ) throws(NodeError) -> Self {
        let bytes: [UInt8]
        do {
            bytes = try SmallFile.read(file, maximumBytes: maximumFileBytes).bytes
        } catch {
            throw NodeError(
                .configurationInvalid, "\(file) \(error.reason)", context: ["file": file])
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw NodeError(
                .configurationInvalid, "\(file) is not UTF-8 text", context: ["file": file])
        }
        return try parse(text, file: file, environment: environment, overrides: overrides)
    }

    /// Reads a configuration from text; `file` is what errors call it and where paths begin.
    ///
    /// - Throws: ``NodeError`` with `configurationInvalid`, which names file, key, line and reason.
    public static func parse(
        _ text: String, file: String, environment: [String: String] = [:],
        overrides: Overrides = Overrides()
    ) throws(NodeError) -> Self {
        try refuseUnknownVariables(environment)
        let outside = SettingsReader.Outside(overrides: overrides, environment: environment)
        let top = try SettingsReader(
            compose(text, file: file), path: "", origin: file,
            known: ["cluster", "node", "store", "model", "http", "mesh"], outside: outside)
        let number = try top.required("node")
        guard let node = NodeID(try number.integer(1...Int(NodeID.maximum))) else {
            throw number.failure("is not the number of a node")
        }
        var configuration = Self(
            cluster: try top.required("cluster").parsed(
                "1 to 63 of a-z, 0-9, - and .", clusterName),
            node: node,
            store: try path(try top.required("store"), file: file),
            model: try path(try top.required("model"), file: file))
        configuration.http = try readHTTP(top.group("http"), file: file, outside: outside)
        configuration.mesh = try readMesh(
            top.group("mesh"), node: node, file: file, outside: outside)
        return configuration
    }

    private static func compose(_ text: String, file: String) throws(NodeError) -> Setting? {
        do {
            guard let node = try Yams.compose(yaml: text) else { return nil }
            if case .scalar(let scalar) = node, scalar.string.isEmpty { return nil }
            return Setting(key: "the file", origin: file, line: node.mark?.line ?? 1, node: node)
        } catch {
            throw NodeError(
                .configurationInvalid, "\(file) is not YAML: \(error)", context: ["file": file],
                cause: error)
        }
    }

    private static func readHTTP(
        _ group: Setting?, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> HTTP {
        let reader = try SettingsReader(
            group, path: "http", origin: file,
            known: ["listen", "tokenFile", "tls", "maxBodyBytes", "maxConnections"],
            outside: outside)
        if let tls = reader.group("tls") {
            throw tls.failure("is set, but TLS is not supported yet: put a proxy in front")
        }
        var http = HTTP()
        if let listen = try reader.optional("listen") {
            http.listen = try listen.parsed("host:port, such as 127.0.0.1:7100") { HostAddress($0) }
        }
        if let tokenFile = try reader.optional("tokenFile") {
            http.tokenFile = try path(tokenFile, file: file)
        }
        if let bytes = try reader.optional("maxBodyBytes") {
            http.maxBodyBytes = try bytes.integer(1024...(1 << 30))
        }
        if let connections = try reader.optional("maxConnections") {
            http.maxConnections = try connections.integer(1...100_000)
        }
        guard http.listen.isLoopback || http.tokenFile != nil else {
            throw try reader.required("listen").failure(
                "can be reached from other machines: set http.tokenFile, or listen on 127.0.0.1")
        }
        return http
    }

    private static func readMesh(
        _ group: Setting?, node: NodeID, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> Mesh? {
        let reader = try SettingsReader(
            group, path: "mesh", origin: file,
            known: [
                "publish", "exchange", "advertise", "source", "secretKeyFile", "insecure", "peers",
            ],
            outside: outside)
        if group == nil, try reader.optional("publish") == nil,
            try reader.optional("exchange") == nil
        {
            return nil
        }
        let publish = try reader.required("publish")
        let exchange = try reader.required("exchange")
        var mesh = Mesh(publish: try endpoint(publish), exchange: try endpoint(exchange))
        if let source = try reader.optional("source") {
            mesh.source = try source.parsed("an address of this machine, such as 127.0.0.11") {
                isAddress($0) ? $0 : nil
            }
        }
        if let secretKeyFile = try reader.optional("secretKeyFile") {
            mesh.secretKeyFile = try path(secretKeyFile, file: file)
        }
        if let insecure = try reader.optional("insecure") { mesh.insecure = try insecure.boolean() }
        try readAdvertised(reader.group("advertise"), file: file, outside: outside, into: &mesh)
        if let peers = try peerList(reader) {
            mesh.peers = try readPeers(peers, node: node, hasKeys: mesh.secretKeyFile != nil)
        }
        guard mesh.secretKeyFile == nil, !mesh.insecure else { return mesh }
        for (setting, endpoint) in [(publish, mesh.publish), (exchange, mesh.exchange)]
        where !endpoint.address.isLoopback {
            throw setting.failure(
                "can be reached from other machines: set mesh.secretKeyFile "
                    + "(`tributary keygen`), or mesh.insecure to allow it")
        }
        return mesh
    }

    private static func readAdvertised(
        _ group: Setting?, file: String, outside: SettingsReader.Outside, into mesh: inout Mesh
    ) throws(NodeError) {
        let reader = try SettingsReader(
            group, path: "mesh.advertise", origin: file, known: ["publish", "exchange"],
            outside: outside)
        mesh.advertisePublish = try reader.optional("publish").map { setting throws(NodeError) in
            try endpoint(setting)
        }
        mesh.advertiseExchange = try reader.optional("exchange").map { setting throws(NodeError) in
            try endpoint(setting)
        }
    }

    /// The list of peers; from the environment it is YAML in one line, as the file would have it.
    private static func peerList(_ reader: SettingsReader) throws(NodeError) -> Setting? {
        guard let setting = try reader.optional("peers") else { return nil }
        guard setting.line == nil, case .scalar(let scalar) = setting.node else { return setting }
        guard let node = try? Yams.compose(yaml: scalar.string) else {
            throw setting.failure("must be a list such as [{node: 2, publish: ..., exchange: ...}]")
        }
        return Setting(key: setting.key, origin: setting.origin, line: nil, node: node)
    }

    private static func readPeers(
        _ list: Setting, node: NodeID, hasKeys: Bool
    ) throws(NodeError) -> [MeshPeer] {
        let elements = try list.elements()
        guard elements.count <= maximumPeers else {
            throw list.failure("has \(elements.count) peers; at most \(maximumPeers) are possible")
        }
        var peers: [MeshPeer] = []
        for element in elements {
            let reader = try SettingsReader(
                element, path: element.key, origin: element.origin,
                known: ["node", "publish", "exchange", "publicKey"], outside: nil)
            let number = try reader.required("node")
            guard let peer = NodeID(try number.integer(1...Int(NodeID.maximum))), peer != node
            else { throw number.failure("is this node's own number") }
            guard !peers.contains(where: { $0.node == peer }) else {
                throw number.failure("is \(peer), as that of another peer")
            }
            let key = try reader.optional("publicKey")
            if hasKeys, key == nil {
                throw element.failure("needs a publicKey, since mesh.secretKeyFile is set")
            }
            let publicKey = try key.map { setting throws(NodeError) in
                try setting.parsed("a key of 40 characters") { CurvePublicKey($0) }
            }
            if let key, peers.contains(where: { $0.publicKey == publicKey }) {
                throw key.failure("is that of another peer")
            }
            peers.append(
                MeshPeer(
                    node: peer, publish: try endpoint(try reader.required("publish")),
                    exchange: try endpoint(try reader.required("exchange")), publicKey: publicKey))
        }
        return peers
    }

    private static func endpoint(_ setting: Setting) throws(NodeError) -> MeshEndpoint {
        try setting.parsed("tcp://host:port") { MeshEndpoint($0) }
    }

    /// A path; one from the file is relative to the file's folder.
    private static func path(_ setting: Setting, file: String) throws(NodeError) -> String {
        let text = try setting.parsed("a path") { $0.utf8.contains(0) ? nil : $0 }
        guard setting.line != nil, !text.hasPrefix("/"), let slash = file.lastIndex(of: "/") else {
            return text
        }
        return file[...slash] + text
    }

    private static func clusterName(_ text: String) -> String? {
        let isName =
            (1...63).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x61...0x7A, 0x2D, 0x2E: true
                default: false
                }
            }
        return isName ? text : nil
    }

    private static func isAddress(_ text: String) -> Bool {
        var bytes = in6_addr()
        return inet_pton(AF_INET, text, &bytes) == 1 || inet_pton(AF_INET6, text, &bytes) == 1
    }

    /// Variables of this kind that no setting has are misspelt, and would be missed silently.
    private static func refuseUnknownVariables(
        _ environment: [String: String]
    ) throws(NodeError) {
        let keys = [
            "http.listen", "http.tokenFile", "http.maxBodyBytes", "http.maxConnections",
            "mesh.publish", "mesh.exchange", "mesh.source", "mesh.secretKeyFile", "mesh.insecure",
            "mesh.peers", "mesh.advertise.publish", "mesh.advertise.exchange",
        ]
        let known = keys.map(SettingsReader.variable)
        for name in environment.keys.sorted()
        where name.hasPrefix("TRIBUTARY_HTTP_") || name.hasPrefix("TRIBUTARY_MESH_") {
            guard known.contains(name) else {
                throw NodeError(
                    .configurationInvalid, "The environment's \(name) is not a setting",
                    context: ["key": name])
            }
        }
    }
}
