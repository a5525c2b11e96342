// Where a node and its configured peers are, as the configuration says at present.

internal import Merge

/// The addresses and keys that a node tells others of itself and of its peers.
struct MeshPlaces {
    /// This node's own; nil where it has no mesh.
    private(set) var own: MemberAddress?
    /// The configured peers; without those that a reload has taken out.
    private(set) var peers: [MeshPeer]

    init(own: MemberAddress?, peers: [MeshPeer]) {
        self.own = own
        self.peers = peers
    }

    /// Goes on with other keys and peers: a key that was withdrawn must not be reported as good.
    mutating func take(_ change: MeshChange) {
        if let keys = change.keys { own?.publicKeys = [keys.publicKey.text] }
        peers = change.peers
    }
}
