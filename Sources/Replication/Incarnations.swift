import Merge

/// The newest incarnation known of each node: met, named by a peer, or seen as a writer.
///
/// Bounded by the number of node numbers there are; in truth by the cluster.
struct Incarnations: Hashable, Sendable {
    /// Sorted by node, one a node.
    private(set) var newest: [ActorID] = []
    /// Nodes that are not members any more, sorted: all their incarnations are closed.
    private(set) var departed: [NodeID] = []

    /// The newest incarnation known of a node.
    subscript(node: NodeID) -> ActorID? {
        let place = place(of: node)
        return place < newest.count && newest[place].node == node ? newest[place] : nil
    }

    /// Whether a newer incarnation of the actor's node is known, or its departure: then its transactions are taken
    /// from members' logs only.
    func isClosed(_ actor: ActorID) -> Bool {
        departed.contains(actor.node) || self[actor.node].map { $0 > actor } ?? false
    }

    /// Closes all incarnations of nodes that are not members any more; they never open again.
    mutating func depart(_ nodes: [NodeID]) {
        for node in nodes where !departed.contains(node) {
            departed.insert(node, at: departed.firstIndex { $0 > node } ?? departed.endIndex)
        }
    }

    /// Takes note of an incarnation.
    ///
    /// - Returns: whether it closes one that was the newest until now.
    @discardableResult
    mutating func note(_ actor: ActorID) -> Bool {
        let place = place(of: actor.node)
        guard place < newest.count, newest[place].node == actor.node else {
            newest.insert(actor, at: place)
            return false
        }
        guard newest[place] < actor else { return false }
        newest[place] = actor
        return true
    }

    private func place(of node: NodeID) -> Int {
        var low = 0
        var high = newest.count
        while low < high {
            let middle = (low + high) / 2
            if newest[middle].node < node { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
