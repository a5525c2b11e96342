import Merge

/// The members, and who is believed, by transactions, the configuration and peers (DESIGN section
/// 8).
struct Members: Sendable {
    let own: NodeID
    /// The configured nodes: the members as long as no transaction has told of any.
    var configured: [NodeID] = []
    /// The members that have said that this node has departed. The order does not matter.
    private var departureTellers: Set<NodeID> = []

    init(own: NodeID) { self.own = own }

    /// The members: those that transactions tell of, or the configured nodes before the first.
    ///
    /// A store that is not vouched for may not have come as far in the log as all that joined: to
    /// it, whom its configuration names is one as well. Else founders that lose their stores
    /// together could end with each other, and never listen to the only one who has all of them.
    func all(_ told: Membership, recovery: Recovery) -> [NodeID] {
        if told.isEmpty { return configured + [own] }
        if recovery == .none { return told.current }
        return Set(told.current + configured.filter { told[$0] == nil }).sorted()
    }

    /// The members that stability waits for, by number: also those of whom peers' configurations
    /// alone tell.
    ///
    /// A node that only another one reaches is none to this one's configuration, and what it saves
    /// comes through that one, whenever that is. The other's report cannot be used before its heads
    /// were heard, and they name it.
    func awaited(_ told: Membership, recovery: Recovery, peers: [PeerProgress]) -> [NodeID] {
        var nodes = Set(all(told, recovery: recovery))
        if told.isEmpty {
            for peer in peers where peer.isConfigured { nodes.formUnion(peer.configured) }
        }
        return nodes.subtracting([own]).sorted()
    }

    /// Whether this node is a member, as far as it knows. It is none, for a while, where it has
    /// joined and has not come as far as that in the log.
    func isOwnMember(_ told: Membership, departed: [NodeID]) -> Bool {
        !isToldDeparted(departed) && (told.isEmpty || told[own]?.isCurrent ?? false)
    }

    /// Whether a member has said that this node has departed. The word of a node that is no member
    /// itself does not count: it may have decided that by itself, and nobody will ever hear of it.
    func isToldDeparted(_ departed: [NodeID]) -> Bool {
        departureTellers.contains { !departed.contains($0) }
    }

    /// Takes a member's word that this node has departed.
    mutating func noteDeparture(toldBy teller: NodeID) {
        departureTellers.insert(teller)
    }

    /// Why a node is not listened to; nil where it is a member, or may be one.
    func refusal(
        of sender: NodeID, _ told: Membership, recovery: Recovery, departed: [NodeID]
    ) -> Refusal? {
        if departed.contains(sender) {
            return Refusal(part: .membership, ours: "departed", theirs: "present")
        }
        guard !told.isEmpty, isOwnMember(told, departed: departed),
            !all(told, recovery: recovery).contains(sender)
        else { return nil }
        return Refusal(part: .membership, ours: "no member", theirs: "present")
    }

    /// Whether transactions are taken from a member, and its word for this node's store.
    ///
    /// In the log that a store reads from its beginning a node that departed is a member for a
    /// while, and may still run: what were taken of it then would be concurrent with what the
    /// others have collected without it. So until a store is vouched for, it asks those who could
    /// vouch and whom its configuration names. One that they say departed is not believed, nor,
    /// before one of them has been heard, is a node that only the log names. Of who is a member
    /// for any other end the log alone tells: see ARCHITECTURE.
    func isBelieved(_ node: NodeID, recovery: Recovery, peers: [PeerProgress]) -> Bool {
        if recovery == .none { return true }
        let guides = peers.filter {
            $0.isConfigured && $0.recovery == .none && configured.contains($0.node)
        }
        let departed = Set(guides.flatMap { $0.departed ?? [] })
        // Where nobody could vouch, or all say it of each other, there is no guide.
        if guides.allSatisfy({ departed.contains($0.node) }) { return true }
        if departed.contains(node) { return false }
        // A new store has heard nobody older yet, so nothing was collected without it.
        if recovery == .new, peers.contains(where: { $0.node == node && $0.isAsNew }) {
            return true
        }
        return configured.contains(node) || guides.contains { $0.departed != nil }
    }
}
