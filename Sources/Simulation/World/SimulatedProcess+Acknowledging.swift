internal import Merge
internal import Replication

/// Saves whose clients wait until other nodes have them on disk, as acknowledgement levels have it.
extension SimulatedProcess {
    /// How many saves are waited for at once, in the order in which they were made.
    private static let unconfirmedSaves = 8

    /// Lets some saves be waited for until other nodes have them on disk.
    func noteUnconfirmed(_ dots: [Dot]) {
        for dot in dots where unconfirmed.count < Self.unconfirmedSaves {
            unconfirmed.append((dot, []))
        }
    }

    /// Tells which nodes are known to have those saves on disk, as clients are told that ask for it.
    func tellConfirmed() {
        guard isAlive, !unconfirmed.isEmpty else { return }
        let peers = replicator.status.peers.filter(\.isAgreed)
        for place in unconfirmed.indices {
            for peer in peers
            where peer.durable.contains(unconfirmed[place].dot)
                && !unconfirmed[place].peers.contains(peer.node)
            {
                unconfirmed[place].peers.append(peer.node)
                let dot = unconfirmed[place].dot
                met(.saveConfirmed)
                observe { .confirmed(node: $0, dot: dot, by: peer.node) }
            }
        }
        // So that later saves are waited for, too, where some node is never heard of again.
        if unconfirmed.count == Self.unconfirmedSaves { unconfirmed.removeFirst() }
    }
}
