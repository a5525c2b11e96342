// Reading the group `mesh` of a configuration.
//
// Functions without state.

internal import Merge

extension NodeConfiguration {
    static func readMesh(
        _ group: Setting?, node: NodeID, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> Mesh? {
        let reader = try SettingsReader(
            group, path: "mesh", origin: file,
            known: [
                "publish", "exchange", "advertise", "source", "secretKeyFile", "insecure", "peers",
                "transferBytesPerSecond",
            ],
            outside: outside)
        if group == nil, try reader.optional("publish") == nil,
            try reader.optional("exchange") == nil
        {
            // The environment's settings of a mesh must not be lost. A flag may be meant for HTTP.
            if let variable = outside.environment.keys.sorted().first(where: {
                $0.hasPrefix("TRIBUTARY_MESH_")
            }) {
                throw NodeError(
                    .configurationInvalid,
                    "\(variable): there is no mesh; set mesh.publish and mesh.exchange as well",
                    context: ["file": variable, "key": "mesh.publish"])
            }
            return nil
        }
        let publish = try reader.required("publish")
        let exchange = try reader.required("exchange")
        var mesh = Mesh(publish: try endpoint(publish), exchange: try endpoint(exchange))
        guard !mesh.exchange.address.isTaken(by: mesh.publish.address) else {
            throw exchange.failure("is where mesh.publish is; give it a port of its own")
        }
        if let source = try reader.optional("source") {
            mesh.source = try source.parsed("an address of this machine, such as 127.0.0.11") {
                isAddress($0) ? $0 : nil
            }
        }
        if let secretKeyFile = try reader.optional("secretKeyFile") {
            mesh.secretKeyFile = try path(secretKeyFile, file: file)
        }
        if let insecure = try reader.optional("insecure") { mesh.insecure = try insecure.boolean() }
        if let bytes = try reader.optional("transferBytesPerSecond") {
            mesh.transferBytesPerSecond = UInt64(try bytes.integer(0...(1 << 40)))
        }
        try readAdvertised(reader.group("advertise"), file: file, outside: outside, into: &mesh)
        if let peers = try list(
            reader, "peers", form: "[{node: 2, publish: ..., exchange: ...}]")
        {
            mesh.peers = try readPeers(peers, node: node, mesh: mesh)
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
            try reachable(setting)
        }
        mesh.advertiseExchange = try reader.optional("exchange").map { setting throws(NodeError) in
            try reachable(setting)
        }
    }

    /// An endpoint that somebody else connects to, so not one that only tells where to listen.
    private static func reachable(_ setting: Setting) throws(NodeError) -> MeshEndpoint {
        let endpoint = try endpoint(setting)
        guard !endpoint.address.isEverywhere else {
            throw setting.failure(
                "must be where others reach the node, not every address of a machine")
        }
        guard endpoint.address.port != 0 else {
            throw setting.failure("must be where others reach the node; nobody listens on port 0")
        }
        return endpoint
    }

    private static func readPeers(
        _ list: Setting, node: NodeID, mesh: Mesh
    ) throws(NodeError) -> [MeshPeer] {
        let elements = try list.elements()
        guard elements.count <= maximumPeers else {
            throw list.failure("has \(elements.count) peers; at most \(maximumPeers) are possible")
        }
        var peers: [MeshPeer] = []
        for element in elements {
            let reader = try SettingsReader(
                element, path: element.key, origin: element.origin,
                known: ["node", "publish", "exchange", "publicKey", "publicKeys"], outside: nil)
            let number = try reader.required("node")
            guard let peer = NodeID(try number.integer(1...Int(NodeID.maximum))), peer != node
            else { throw number.failure("is this node's own number") }
            guard !peers.contains(where: { $0.node == peer }) else {
                throw number.failure("is \(peer), as that of another peer")
            }
            let keys = try readKeys(
                reader, of: element, hasKeys: mesh.secretKeyFile != nil, others: peers)
            var endpoints: [MeshEndpoint] = []
            for setting in [try reader.required("publish"), try reader.required("exchange")] {
                let endpoint = try reachable(setting)
                // It would take itself for another process with its number.
                guard !mesh.ownEndpoints.contains(endpoint) else {
                    throw setting.failure("is this node's own address")
                }
                endpoints.append(endpoint)
            }
            peers.append(
                MeshPeer(
                    node: peer, publish: endpoints[0], exchange: endpoints[1], publicKeys: keys))
        }
        return peers
    }

    /// The keys of a peer: `publicKey`, or `publicKeys` while it changes from one to another.
    private static func readKeys(
        _ reader: SettingsReader, of element: Setting, hasKeys: Bool, others: [MeshPeer]
    ) throws(NodeError) -> [CurvePublicKey] {
        var settings: [Setting] = []
        if let one = try reader.optional("publicKey") { settings = [one] }
        if let several = try reader.optional("publicKeys") {
            guard settings.isEmpty else {
                throw several.failure("and publicKey exclude each other")
            }
            settings = try several.elements()
            guard (1...MeshPeer.maximumKeys).contains(settings.count) else {
                throw several.failure("must be 1 to \(MeshPeer.maximumKeys) keys")
            }
        }
        guard !hasKeys || !settings.isEmpty else {
            throw element.failure("needs a publicKey, since mesh.secretKeyFile is set")
        }
        var keys: [CurvePublicKey] = []
        for setting in settings {
            let key = try setting.parsed("a key of 40 characters") { CurvePublicKey($0) }
            guard !keys.contains(key) else { throw setting.failure("is listed twice") }
            guard !others.contains(where: { $0.publicKeys.contains(key) }) else {
                throw setting.failure("is that of another peer")
            }
            keys.append(key)
        }
        return keys
    }
}

extension NodeConfiguration.Mesh {
    /// Where this node listens, and where others reach it.
    fileprivate var ownEndpoints: [MeshEndpoint] {
        [publish, exchange] + [advertisePublish, advertiseExchange].compactMap(\.self)
    }
}
