// Going on with other keys, tokens and certificates while the node runs.
//
// All files are read, and everything is checked, before anything changes: a reload that fails has
// changed nothing. Threading: one reload at a time, from any task.

internal import Coordinator
internal import Logging
internal import Merge
internal import ServiceLifecycle

/// The outcome of a reload.
package struct ReloadReport: Hashable, Sendable {
    /// The settings that the node goes on with, as "node 2: keys".
    package var changed: [String] = []
    /// The settings that the file has otherwise by now, and that the node takes up with its next
    /// start.
    package var atNextStart: [String] = []

    /// Nothing has changed.
    package init() {}
}

/// Reads the configuration of a running node again.
actor NodeReloader {
    private let read: @Sendable () throws -> NodeConfiguration
    private let service: NodeService
    private let server: HTTPServer
    private let logger: Logger
    /// The configuration taken up last; settings that wait for the next start are as they were.
    private var current: NodeConfiguration
    private var secrets: NodeSecrets
    private var isEnded = false

    init(
        configuration: NodeConfiguration, secrets: NodeSecrets, service: NodeService,
        server: HTTPServer, logger: Logger,
        read: @escaping @Sendable () throws -> NodeConfiguration
    ) {
        current = configuration
        self.secrets = secrets
        self.service = service
        self.server = server
        self.logger = logger
        self.read = read
    }

    /// Ends this run's part: what is read from now on is not taken up by it.
    ///
    /// - Returns: the settings that the node goes on with when its store is opened again.
    func end() -> (NodeConfiguration, NodeSecrets) {
        isEnded = true
        return (current, secrets)
    }

    /// Reads the file and what it names, and goes on with keys, tokens and certificates. Peers that
    /// are ignored for what they sent are listened to again.
    ///
    /// - Throws: ``NodeError``, and nothing has changed; `stopped` once the run has ended.
    func reload() throws -> ReloadReport {
        if isEnded { throw NodeError(.stopped, "The node is stopping") }
        let (new, fresh): (NodeConfiguration, NodeSecrets)
        do {
            new = try read()
            fresh = try NodeSecrets(of: new)
            try checkFits(new)
            if let change = meshChange(new, fresh) { try service.update(change) }
        } catch {
            logger.error(
                "The reload failed: nothing has changed",
                metadata: [LogKeys.error: "\(error)"])
            throw error
        }
        // From here on nothing can fail.
        var report = ReloadReport()
        report.changed = meshDifferences(new, fresh)
        if fresh.tokens != secrets.tokens {
            server.update(tokens: fresh.tokens)
            report.changed.append("http: tokens")
        }
        if let identity = fresh.identity,
            identity.certificates != secrets.identity?.certificates
        {
            server.update(identity: identity)
            report.changed.append("http: certificate")
        }
        report.changed += service.liftQuarantines().map { "node \($0): listened to again" }
        report.atNextStart = differencesThatWait(new)
        takeUp(new, fresh)
        logger.notice(
            "The configuration was read again",
            metadata: [LogKeys.settings: "\(report.changed.joined(separator: ", "))"])
        if !report.atNextStart.isEmpty {
            logger.notice(
                "Some settings are taken up only with the next start",
                metadata: [LogKeys.settings: "\(report.atNextStart.joined(separator: ", "))"])
        }
        return report
    }

    // MARK: - Comparing

    /// Refuses what a running node cannot become.
    private func checkFits(_ new: NodeConfiguration) throws(NodeError) {
        func failure(_ key: String, _ reason: String) -> NodeError {
            NodeError(
                .configurationInvalid, "\(key): \(reason); restart the node for that",
                context: ["key": key, "reason": reason])
        }
        guard new.cluster == current.cluster, new.node == current.node else {
            throw failure("node", "this configuration is another node's")
        }
        // Without this, a file without a mesh would cut all peers off; none would be until the
        // store is opened again, and then all.
        if (new.mesh == nil) != (current.mesh == nil) {
            throw failure("mesh", "the node begins or ends to have a mesh")
        }
        if (new.mesh?.secretKeyFile == nil) != (current.mesh?.secretKeyFile == nil) {
            throw failure("mesh.secretKeyFile", "a mesh begins or ends to use keys")
        }
        if (new.http.tls == nil) != (current.http.tls == nil) {
            throw failure("http.tls", "the interface changes between HTTP and HTTPS")
        }
        let hadTokens = !secrets.tokens.isEmpty
        let hasTokens = new.http.tokenFile != nil || !new.http.tokens.isEmpty
        if hadTokens, !hasTokens {
            throw failure("http.tokens", "the last token is taken away, and anybody could ask")
        }
    }

    /// The settings that the mesh goes on with; nil if they are as they were.
    private func meshChange(_ new: NodeConfiguration, _ fresh: NodeSecrets) -> MeshChange? {
        guard let mesh = new.mesh, let old = current.mesh else { return nil }
        let known = Self.sorted(mesh.peers.filter { peer in member(peer.node) })
        guard known != Self.sorted(old.peers) || fresh.keys != secrets.keys else { return nil }
        return MeshChange(keys: fresh.keys, peers: known)
    }

    private func member(_ node: NodeID) -> Bool {
        service.settings.peers.contains { $0.node == node }
    }

    private static func sorted(_ peers: [MeshPeer]) -> [MeshPeer] {
        peers.sorted { $0.node < $1.node }
    }

    private func meshDifferences(_ new: NodeConfiguration, _ fresh: NodeSecrets) -> [String] {
        var result: [String] = []
        if fresh.keys != secrets.keys { result.append("node \(current.node): own key") }
        let old = current.mesh?.peers ?? []
        let peers = Self.sorted(new.mesh?.peers ?? [])
        for peer in peers where member(peer.node) {
            let former = old.first { $0.node == peer.node }
            if former?.publicKeys != peer.publicKeys { result.append("node \(peer.node): keys") }
            guard let former else { continue }
            if former.publish != peer.publish || former.exchange != peer.exchange {
                result.append("node \(peer.node): addresses")
            }
        }
        for peer in Self.sorted(old) where !peers.contains(where: { $0.node == peer.node }) {
            result.append("node \(peer.node): cut off")
        }
        return result
    }

    /// Settings that differ from those the node runs with, and are not among those above.
    private func differencesThatWait(_ new: NodeConfiguration) -> [String] {
        var result: [String] = []
        if new.store != current.store { result.append("store") }
        if let model = modelDifference(new) { result.append(model) }
        if new.http.listen != current.http.listen { result.append("http.listen") }
        if new.http.maxBodyBytes != current.http.maxBodyBytes { result.append("http.maxBodyBytes") }
        if new.http.maxConnections != current.http.maxConnections {
            result.append("http.maxConnections")
        }
        if new.http.headerTimeoutSeconds != current.http.headerTimeoutSeconds {
            result.append("http.headerTimeoutSeconds")
        }
        if new.http.inspector != current.http.inspector { result.append("http.inspector") }
        if new.http.bodyTimeoutSeconds != current.http.bodyTimeoutSeconds {
            result.append("http.bodyTimeoutSeconds")
        }
        if new.http.hosts != current.http.hosts { result.append("http.hosts") }
        if new.http.origins != current.http.origins { result.append("http.origins") }
        if new.http.maxAnswerBytes != current.http.maxAnswerBytes {
            result.append("http.maxAnswerBytes")
        }
        if new.http.slowClientSeconds != current.http.slowClientSeconds {
            result.append("http.slowClientSeconds")
        }
        if new.http.insecure != current.http.insecure { result.append("http.insecure") }
        if new.history != current.history || new.indexesHistory != current.indexesHistory {
            result.append("history and journal")
        }
        if new.mesh?.publish != current.mesh?.publish { result.append("mesh.publish") }
        if new.mesh?.exchange != current.mesh?.exchange { result.append("mesh.exchange") }
        if new.mesh?.advertisePublish != current.mesh?.advertisePublish
            || new.mesh?.advertiseExchange != current.mesh?.advertiseExchange
        {
            result.append("mesh.advertise")
        }
        if new.mesh?.source != current.mesh?.source { result.append("mesh.source") }
        if new.mesh?.insecure != current.mesh?.insecure { result.append("mesh.insecure") }
        if new.mesh?.transferBytesPerSecond != current.mesh?.transferBytesPerSecond {
            result.append("mesh.transferBytesPerSecond")
        }
        for peer in Self.sorted(new.mesh?.peers ?? []) where !member(peer.node) {
            result.append("node \(peer.node): a new peer")
        }
        for peer in Self.sorted(service.settings.peers)
        where !(new.mesh?.peers ?? []).contains(where: { $0.node == peer.node }) {
            if let fate = fate(ofWithdrawn: peer.node) { result.append(fate) }
        }
        return result
    }

    /// "model" where another file is named, or the same has other content by now; where a start
    /// would fail with it, why.
    private func modelDifference(_ new: NodeConfiguration) -> String? {
        do {
            let model = try NodeProcess.readModel(new.model)
            let known = service.coordinator.model.jsonValue()
            let isSame = new.model == current.model && model.jsonValue() == known
            return isSame ? nil : "model"
        } catch { return error.message }
    }

    /// The next start's treatment of a peer that the configuration does not name any more; nil for
    /// one that has departed. Where members are data, the configuration cannot take one away.
    private func fate(ofWithdrawn node: NodeID) -> String? {
        guard let membership = try? service.coordinator.membership, !membership.isEmpty else {
            return "node \(node): a member no longer"
        }
        guard membership.current.contains(node) else { return nil }
        return "node \(node): connected again, because it is a member; "
            + "`tributary member retire \(node)` shuts it out for good"
    }

    private func takeUp(_ new: NodeConfiguration, _ fresh: NodeSecrets) {
        secrets = fresh
        current.http.tokens = new.http.tokens
        current.http.tokenFile = new.http.tokenFile
        current.http.tls = new.http.tls
        current.mesh?.secretKeyFile = new.mesh?.secretKeyFile
        current.mesh?.peers = (new.mesh?.peers ?? []).filter { member($0.node) }
    }
}

/// The secrets in the files that a configuration names.
struct NodeSecrets: Sendable {
    let keys: CurveKeys?
    let tokens: [HTTPToken]
    let identity: TLSIdentity?

    /// Reads them all.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable` or `configurationInvalid`, which says why.
    init(of configuration: NodeConfiguration) throws(NodeError) {
        keys = try configuration.readKeys()
        tokens = try configuration.readTokens()
        guard let tls = configuration.http.tls else {
            identity = nil
            return
        }
        identity = try TLSIdentity(certificateFile: tls.certificateFile, keyFile: tls.keyFile)
    }
}
