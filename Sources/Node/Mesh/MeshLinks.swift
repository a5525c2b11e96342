// Connects to the members there are.
//
// Threading: belongs to the loop's thread.

internal import Coordinator
internal import Logging
internal import Merge

/// The plan of the mesh, carried out by a transport.
struct MeshLinks {
    let transport: any Transport
    let coordinator: PersistentStoreCoordinator
    let logger: Logger
    private var plan: MeshPlan

    init(
        transport: any Transport, coordinator: PersistentStoreCoordinator, logger: Logger,
        plan: MeshPlan
    ) {
        self.transport = transport
        self.coordinator = coordinator
        self.logger = logger
        self.plan = plan
    }

    /// Connects to the members there are now.
    mutating func connect(to nodes: [NodeID]) {
        do {
            plan.members = nodes
            plan.membership = try coordinator.membership
        } catch {
            logger.error("Members cannot be read", metadata: [LogKeys.error: "\(error)"])
        }
        for (peer, reason) in plan.unreachable {
            logger.error(
                "The node cannot connect to a member",
                metadata: [LogKeys.peer: "\(peer)", LogKeys.reason: "\(reason)"])
        }
        for peer in plan.peers {
            do {
                try transport.connect(to: peer)
            } catch {
                logger.error(
                    "The node cannot connect to a member",
                    metadata: [LogKeys.peer: "\(peer.node)", LogKeys.error: "\(error)"])
            }
        }
        for (node, keys) in plan.cut {
            do {
                try transport.disconnect(from: node, hearing: keys)
            } catch {
                logger.error(
                    "A node that is not a member any more cannot be cut off",
                    metadata: [LogKeys.peer: "\(node)", LogKeys.error: "\(error)"])
            }
        }
    }

    /// Goes on with other keys and addresses of configured peers. A member that cannot be talked to
    /// in this mesh, because data alone tell of it and no key, is left out, as it is at the start.
    mutating func update(_ change: MeshChange) throws {
        plan.configure(change.peers)
        var peers = plan.peers
        if change.keys != nil {
            for peer in peers where peer.publicKeys.isEmpty {
                logger.error(
                    "The node cannot connect to a member",
                    metadata: [
                        LogKeys.peer: "\(peer.node)", LogKeys.reason: "it has no public key",
                    ])
            }
            peers.removeAll { $0.publicKeys.isEmpty }
        }
        try transport.update(MeshChange(keys: change.keys, peers: peers))
    }
}
