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
            known: ["cluster", "node", "store", "model", "http", "mesh", "history", "journal"],
            outside: outside)
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
        if let mesh = configuration.mesh {
            for (key, endpoint) in [("publish", mesh.publish), ("exchange", mesh.exchange)]
            where endpoint.address.isTaken(by: configuration.http.listen) {
                throw SettingsReader.failure(
                    origin: file, key: "mesh.\(key)", line: nil,
                    "is where http.listen is; give it a port of its own")
            }
        }
        (configuration.history, configuration.indexesHistory) = try readHistory(
            top.group("history"), journal: top.group("journal"), file: file, outside: outside)
        return configuration
    }

    private static func compose(_ text: String, file: String) throws(NodeError) -> Setting? {
        do {
            // Some editors put a byte order mark in front.
            let text =
                text.unicodeScalars.first == "\u{FEFF}"
                ? String(text.unicodeScalars.dropFirst()) : text
            guard let node = try Yams.compose(yaml: text) else { return nil }
            if case .scalar(let scalar) = node, scalar.string.isEmpty { return nil }
            return Setting(key: "the file", origin: file, line: node.mark?.line ?? 1, node: node)
        } catch YamlError.duplicatedKeysInMapping(let keys, let context) {
            // Yams prints the whole file.
            throw SettingsReader.failure(
                origin: file, key: keys.first ?? "a key", line: context.mark.line,
                "is set more than once in its group")
        } catch {
            throw NodeError(
                .configurationInvalid, "\(file) is not YAML: \(error)", context: ["file": file],
                cause: error)
        }
    }

    /// A list; from the environment it is YAML in one line, as the file would have it.
    ///
    /// - Parameter form: an example, for who got it wrong.
    static func list(
        _ reader: SettingsReader, _ name: String, form: String
    ) throws(NodeError) -> Setting? {
        guard let setting = try reader.optional(name) else { return nil }
        guard setting.line == nil, case .scalar(let scalar) = setting.node else { return setting }
        guard let node = try? Yams.compose(yaml: scalar.string) else {
            throw setting.failure("must be a list such as \(form)")
        }
        return Setting(key: setting.key, origin: setting.origin, line: nil, node: node)
    }

    static func endpoint(_ setting: Setting) throws(NodeError) -> MeshEndpoint {
        try setting.parsed("tcp://host:port") { MeshEndpoint($0) }
    }

    /// A path; one from the file is relative to the file's folder.
    static func path(_ setting: Setting, file: String) throws(NodeError) -> String {
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

    static func isAddress(_ text: String) -> Bool {
        var bytes = in6_addr()
        return inet_pton(AF_INET, text, &bytes) == 1 || inet_pton(AF_INET6, text, &bytes) == 1
    }

    /// Variables that clients, tools and tests of this program read. A node does not.
    private static let foreignVariables: Set = [
        "TRIBUTARY_NODE", "TRIBUTARY_TOKEN_FILE", "TRIBUTARY_CA_FILE",
    ]

    /// Variables of this kind that no setting has are misspelt, and would be missed silently: those
    /// that begin as settings do, and those that are all but one.
    private static func refuseUnknownVariables(
        _ environment: [String: String]
    ) throws(NodeError) {
        let keys = [
            "http.listen", "http.tokenFile", "http.tokens", "http.insecure", "http.maxBodyBytes",
            "http.maxConnections", "http.maxAnswerBytes", "http.slowClientSeconds",
            "http.headerTimeoutSeconds", "http.bodyTimeoutSeconds", "http.hosts",
            "http.origins", "http.tls.certificateFile", "http.tls.keyFile",
            "http.tls.certificate", "http.tls.key",
            "mesh.publish", "mesh.exchange", "mesh.source", "mesh.secretKeyFile", "mesh.insecure",
            "mesh.peers", "mesh.advertise.publish", "mesh.advertise.exchange",
            "mesh.transferBytesPerSecond",
            "history.keep", "history.maximumBytes", "history.index", "journal.maximumRecords",
        ]
        let known = (keys + ["cluster", "node", "store", "model"]).map(SettingsReader.variable)
        let beginnings = ["HTTP", "MESH", "HISTORY", "JOURNAL", "CLUSTER", "STORE", "MODEL"].map {
            "TRIBUTARY_\($0)"
        }
        for name in environment.keys.sorted()
        where name.hasPrefix("TRIBUTARY_") && !known.contains(name)
            && !foreignVariables.contains(name)
        {
            guard
                beginnings.contains(where: name.hasPrefix)
                    || known.contains(where: { isNear(name, $0) })
            else { continue }
            throw NodeError(
                .configurationInvalid, "The environment's \(name) is not a setting",
                context: ["key": name])
        }
    }

    /// Whether at most two letters were added, left out or put in another's place.
    static func isNear(_ text: String, _ other: String) -> Bool {
        let (left, right) = (Array(text.utf8), Array(other.utf8))
        // A setting may be long; a name that is much longer is not near.
        guard abs(left.count - right.count) <= 2 else { return false }
        var row = Array(0...right.count)
        for (index, byte) in left.enumerated() {
            var corner = row[0]
            row[0] = index + 1
            for (place, known) in right.enumerated() {
                let changed = corner + (byte == known ? 0 : 1)
                corner = row[place + 1]
                row[place + 1] = min(changed, row[place] + 1, corner + 1)
            }
        }
        return row[right.count] <= 2
    }
}
