// GET and POST /v1/members, POST /v1/members/{node}/departure.

internal import Coordinator
internal import Merge

/// The members of the cluster.
struct MembersResource: Sendable {
    let services: HTTPServices

    func get() async throws -> HTTPAnswer {
        .json(.object(["members": .array(try await members())]))
    }

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes),
            allowed: ["node", "publish", "exchange", "publicKeys", "cluster", "author"])
        let cluster = services.coordinator.cluster
        if let other = try fields.string("cluster"), other != cluster {
            throw HTTPError.malformed(
                "That node's configuration is of cluster \(other), and this node of \(cluster).")
        }
        guard let number = try fields.count("node", atLeast: 1), let node = NodeID(number) else {
            throw fields.wrong("node", "a number from 1 to \(NodeID.maximum)")
        }
        var address = MemberAddress(
            publish: try endpoint("publish", fields), exchange: try endpoint("exchange", fields))
        guard address.publish != address.exchange else {
            throw fields.wrong("exchange", "another address than publish")
        }
        for key in try fields.array("publicKeys") ?? [] {
            guard let text = key.string, CurvePublicKey(text) != nil else {
                throw fields.wrong("publicKeys", "public keys of 40 characters each")
            }
            address.publicKeys.append(text)
        }
        guard address.publicKeys.count <= MeshPeer.maximumKeys else {
            throw fields.wrong("publicKeys", "at most \(MeshPeer.maximumKeys) keys")
        }
        let author = try fields.string("author")
        // Of those that are members by now: the newcomer may be started only afterwards.
        let count = await services.backend.status().members.count { $0 != node }
        let result = try await services.backend.join(node, at: address, author: author)
        return try await answer(result, awaited: .nodes(count / 2 + 1))
    }

    func depart(_ text: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes),
            allowed: ["force", "author"])
        guard let number = Int(text), let node = NodeID(number) else {
            throw HTTPError.malformed("A node is a number from 1 to \(NodeID.maximum).")
        }
        let author = try fields.string("author")
        let isForced = try fields.boolean("force")
        let backend = services.backend
        // To retire is to decide for a node that is not there, forced or not; only without that
        // word does the node that is asked leave by itself.
        if node == services.coordinator.node, fields["force"] == nil {
            return try await answer(try await backend.leave(author: author), awaited: .local)
        }
        let result = try await backend.retire(node, isForced: isForced, author: author)
        return try await answer(result, awaited: .majority)
    }

    private func endpoint(_ key: String, _ fields: JSONFields) throws -> String {
        guard let text = try fields.string(key), let endpoint = MeshEndpoint(text),
            endpoint.address.port > 0
        else {
            throw fields.wrong(key, "an address such as tcp://10.0.0.4:7101")
        }
        guard !endpoint.address.isEverywhere else {
            throw fields.wrong(key, "where others reach the node: set mesh.advertise there")
        }
        return endpoint.description
    }

    /// How long a majority may take to have it on disk: what a lost machine alone has heard of is
    /// lost with it.
    private static let patience = Duration.seconds(10)

    private func answer(
        _ result: SaveResult, awaited: Acknowledgement
    ) async throws -> HTTPAnswer {
        var answer: JSONObject = [
            "transaction": ValueRenderer.text(result.transaction?.description),
            "token": .string(result.token.text),
            "members": .array(try await members()),
        ]
        if awaited != .local, let dot = result.transaction {
            let missing = await services.backend.waitForAcknowledgements(
                of: dot, level: awaited, timeout: Self.patience)
            answer["missing"] = .array(missing.map { .integer(Int64($0.rawValue)) })
        }
        return .json(.object(answer))
    }

    private func members() async throws -> [JSONValue] {
        let membership = try services.coordinator.membership
        let status = await services.backend.status()
        let own = services.coordinator.node
        func isConnected(_ node: NodeID) -> JSONValue {
            .boolean(
                node == own || status.peers.contains { $0.node == node && $0.isConnected })
        }
        guard !membership.isEmpty else {
            return status.members.map { node in
                .object([
                    "node": .integer(Int64(node.rawValue)), "state": .string("configured"),
                    "connected": isConnected(node),
                ])
            }
        }
        return membership.members.map { member in
            let state =
                switch member.departure?.isRetired {
                case nil: "member"
                case true?: "retired"
                case false?: "left"
                }
            var object: JSONObject = [
                "node": .integer(Int64(member.node.rawValue)), "state": .string(state),
                "connected": isConnected(member.node),
            ]
            object["publish"] = ValueRenderer.text(member.address?.publish)
            object["exchange"] = ValueRenderer.text(member.address?.exchange)
            object["publicKeys"] = .array(
                (member.address?.publicKeys ?? []).map { .string($0) })
            object["joined"] = ValueRenderer.text(member.joined?.dot.description)
            object["departed"] = ValueRenderer.text(member.departure?.stamp.dot.description)
            return .object(object)
        }
    }
}
