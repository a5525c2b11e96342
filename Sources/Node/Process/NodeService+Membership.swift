// Changing who is a member of the cluster, from any of its nodes.

public import Coordinator
public import Merge
internal import Replication
internal import Synchronization

extension NodeService {
    /// Makes a node a member, or tells of a member's new address.
    ///
    /// The transaction travels like any other. A node that applies it connects to the new node and
    /// waits for its word before it collects anything. The node itself may be started before or
    /// after, with this or another member among its configured peers.
    ///
    /// - Throws: ``CoordinatorError``: `memberDeparted` where the number was a member's once,
    ///   `malformed` where this node does not know its own address to tell the others, where another
    ///   member is at that address or has that key, or where there is no public key and this mesh uses
    ///   keys;
    ///   ``NotSupported`` where this node has no mesh.
    public func join(
        _ node: NodeID, at address: MemberAddress, author: String? = nil
    ) async throws -> SaveResult {
        // All members connect to the address they get. One that finds itself there takes that for
        // another process with its number.
        let wanted = [address.publish, address.exchange]
        for (other, known) in try addresses where other != node {
            if let taken = wanted.first(where: { [known.publish, known.exchange].contains($0) }) {
                throw CoordinatorError(
                    .malformed,
                    "Node \(node) cannot be at \(taken): node \(other) is. Give its own address.")
            }
            // A key is good for one number: the node that was let in with it first keeps the other
            // out.
            if !Set(known.publicKeys).isDisjoint(with: address.publicKeys) {
                throw CoordinatorError(
                    .malformed,
                    "Node \(node) cannot have the public key of node \(other). Make it a key of its "
                        + "own with `tributary keygen`.")
            }
        }
        if let own = places.withLock(\.own), !own.publicKeys.isEmpty, address.publicKeys.isEmpty {
            throw CoordinatorError(
                .malformed,
                "Node \(node) needs a public key: this mesh talks with keys only. Give its own.")
        }
        return try await change([.join(node, address)], author: author)
    }

    /// Where the members are, as far as this node knows: by data, or else by its configuration. Where
    /// a node was that departed another may be.
    private var addresses: [(NodeID, MemberAddress)] {
        get throws {
            let told = try coordinator.membership
            let places = places.withLock { $0 }
            let own = places.own.map { [(coordinator.node, $0)] } ?? []
            let configured = places.peers.filter { told[$0.node] == nil }.map {
                ($0.node, Self.address(of: $0))
            }
            return own + configured
                + told.members.filter(\.isCurrent).compactMap { member in
                    member.address.map { (member.node, $0) }
                }
        }
    }

    /// Nodes that have saved here, and that neither transactions nor this node's configuration, as it
    /// was last reloaded, name; lowest first. None once transactions tell of members.
    private func unnamed() throws -> [NodeID] {
        guard try coordinator.membership.isEmpty else { return [] }
        let named = Set(places.withLock(\.peers).map(\.node) + [coordinator.node])
        let writers = try coordinator.currentToken.versionVector.entries.map(\.actor.node)
        return Set(writers).subtracting(named).sorted()
    }

    private static func address(of peer: MeshPeer) -> MemberAddress {
        MemberAddress(
            publish: "\(peer.publish)", exchange: "\(peer.exchange)",
            publicKeys: peer.publicKeys.map(\.text))
    }

    /// Ends the membership of a node that will not return, so that nobody waits for it any more.
    ///
    /// Saves that it has announced to nobody are in its own store only, and stay there.
    ///
    /// - Parameter isForced: whether also a node that was heard lately is retired.
    /// - Throws: ``CoordinatorError``: `memberUnknown`, `memberDeparted` or `memberConnected`.
    public func retire(
        _ node: NodeID, isForced: Bool = false, author: String? = nil
    ) async throws -> SaveResult {
        guard node != coordinator.node else {
            throw CoordinatorError(
                .malformed, "A node does not retire itself: let it leave, or ask another node.")
        }
        try check(node)
        let peers = shared.report.withLock { $0.replicator }?.peers ?? []
        // A connection that was lost a moment ago is no sign that the node will not return.
        let now = MonotonicClock.milliseconds
        let patience = settings.limits.connectedMilliseconds
        let isThere = peers.contains {
            $0.node == node && $0.heardAt.map { now < $0 + patience } ?? false
        }
        if isThere, !isForced {
            throw CoordinatorError(
                .memberConnected,
                "Node \(node) is there. Let it leave by itself, or force it: what it has saved and "
                    + "told nobody of is lost to the cluster then.")
        }
        return try await change([.depart(node, isRetired: true)], author: author)
    }

    /// Ends this node's own membership. It takes no saves from then on; it should run until others
    /// have all of its saves.
    ///
    /// - Throws: ``CoordinatorError``: `memberDeparted`; `malformed` for the last member.
    public func leave(author: String? = nil) async throws -> SaveResult {
        try check(coordinator.node)
        guard members.count > 1 else {
            throw CoordinatorError(.malformed, "The last member of a cluster does not leave it.")
        }
        return try await change([.depart(coordinator.node, isRetired: false)], author: author)
    }

    private func check(_ node: NodeID) throws {
        if try coordinator.membership[node]?.departure != nil {
            throw CoordinatorError(.memberDeparted, "Node \(node) is not a member any more.")
        }
        guard try members.contains(node) || unnamed().contains(node) else {
            throw CoordinatorError(.memberUnknown, "Node \(node) is no member of this cluster.")
        }
    }

    /// Saves a change; the first change of a cluster tells of all members there are.
    private func change(
        _ changes: [MembershipChange], author: String?
    ) async throws -> SaveResult {
        let places = places.withLock { $0 }
        guard let own = places.own else {
            throw NotSupported("This node has no mesh, so it can have no other members.")
        }
        var all: [MembershipChange] = []
        if try coordinator.membership.isEmpty {
            let endpoints = [own.publish, own.exchange].compactMap { MeshEndpoint($0) }
            guard endpoints.allSatisfy({ !$0.address.isEverywhere }) else {
                throw CoordinatorError(
                    .malformed,
                    "This node listens on every address of its machine, so it cannot tell others "
                        + "where it is: set mesh.advertise in its configuration, and restart it.")
            }
            let changed = Set(changes.map(\.node))
            // A node that it does not name stops being a member, and would never hear of it.
            if let missing = try unnamed().first(where: { !changed.contains($0) }) {
                throw CoordinatorError(
                    .malformed,
                    "Node \(missing) has saved in this cluster, and this node's configuration does not "
                        + "name it. Name it in mesh.peers and restart this node, or retire node "
                        + "\(missing) first where it will not return.")
            }
            // Two joins of one save would have one stamp, and the first of them would stand.
            let known =
                [(coordinator.node, own)]
                + places.peers.map { ($0.node, Self.address(of: $0)) }
            all = known.filter { !changed.contains($0.0) }.map { .join($0.0, $0.1) }
        }
        let told = all + changes
        return try await saveOnceVouched { try await $0.changeMembership(told, author: author) }
    }
}
