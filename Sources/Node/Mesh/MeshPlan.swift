// With whom this node connects, and how it knows them.

internal import Merge

/// The nodes to connect to: the configured peers, and those that transactions name.
///
/// The configuration goes before transactions, so that a node behind another network's translation
/// of addresses can be reached.
struct MeshPlan {
    let node: NodeID
    /// The configured peers.
    private(set) var configured: [MeshPeer]
    /// Peers that were taken out of the configuration while this process ran: they stay cut off
    /// until it ends.
    private(set) var withdrawn: Set<NodeID> = []
    /// The other members; nil as long as no transaction has told of any.
    var members: [NodeID]?
    /// The members, as transactions name them.
    var membership = Membership()

    init(node: NodeID, configured: [MeshPeer], withdrawn: Set<NodeID> = []) {
        self.node = node
        self.configured = configured.filter { !withdrawn.contains($0.node) }
        self.withdrawn = withdrawn
    }

    /// Goes on with another list of configured peers.
    mutating func configure(_ peers: [MeshPeer]) {
        let named = Set(peers.map(\.node))
        withdrawn.formUnion(configured.map(\.node).filter { !named.contains($0) })
        withdrawn.subtract(named)
        configured = peers
    }

    /// The peers to connect to, by number.
    var peers: [MeshPeer] {
        guard let members else { return configured }
        return members.compactMap { try? peer($0).get() }
    }

    /// The members that cannot be connected to, with the reason for people.
    var unreachable: [(node: NodeID, reason: String)] {
        (members ?? []).compactMap { member in
            guard case .failure(let failure) = peer(member), !withdrawn.contains(member) else {
                return nil
            }
            return (member, failure.reason)
        }
    }

    /// Nodes to be cut off: those that others have retired, and the keys under which they may still
    /// ask, so that they learn it. A node that left by itself still hears what others have of it.
    var cut: [(node: NodeID, keys: [CurvePublicKey])] {
        membership.departed.filter { $0.departure?.isRetired ?? false }.map {
            ($0.node, (try? peer($0.node).get().publicKeys) ?? [])
        }
    }

    private struct Unreachable: Error {
        let reason: String
    }

    private func peer(_ member: NodeID) -> Result<MeshPeer, Unreachable> {
        if let peer = configured.first(where: { $0.node == member }) { return .success(peer) }
        guard !withdrawn.contains(member) else {
            return .failure(Unreachable(reason: "it was taken out of the configuration"))
        }
        guard let address = membership[member]?.address else {
            return .failure(Unreachable(reason: "its address is not known"))
        }
        guard let publish = MeshEndpoint(address.publish),
            let exchange = MeshEndpoint(address.exchange)
        else { return .failure(Unreachable(reason: "its address cannot be read")) }
        let keys = address.publicKeys.compactMap { CurvePublicKey($0) }
        guard keys.count == address.publicKeys.count, keys.count <= MeshPeer.maximumKeys else {
            return .failure(Unreachable(reason: "its public keys cannot be read"))
        }
        return .success(
            MeshPeer(node: member, publish: publish, exchange: exchange, publicKeys: keys))
    }
}
