// The state of a transport's keys: its own, its refusals, and those by peers.
//
// Values only; may be handed to any thread.

public import Merge

/// Where the keys of a mesh stand, seen from one node. Public keys only.
public struct MeshKeyReport: Hashable, Sendable {
    /// How the last handshake with a peer ended, on a connection that we made.
    public enum Handshake: String, Sendable {
        /// None has ended so far, or the mesh has no keys.
        case none
        /// Both sides proved their keys.
        case succeeded
        /// The peer does not list our key.
        case refusedThere
        /// The node at the peer's address does not hold the key listed here, or speaks without
        /// CURVE, or hung up.
        case failed
    }

    /// Why somebody was not let in.
    public enum Reason: Hashable, Sendable {
        /// The key is not listed.
        case keyNotListed
        /// The key is that of one node, and its holder claims to be another.
        case claimsToBe(NodeID)
    }

    /// Somebody who was not let in, or not believed.
    public struct Refusal: Hashable, Sendable {
        /// Why.
        public var reason: Reason
        /// The key that was shown; nil where it was none.
        public var publicKey: CurvePublicKey?
        /// The owner of that key, if it is listed.
        public var node: NodeID?
        /// Where it came from, as an address without its port; empty where that is not known.
        public var address: String
        /// How often.
        public var count: Int
        /// When it was last, in monotonic milliseconds.
        public var lastMilliseconds: UInt64
    }

    /// A peer to which we connect.
    public struct Peer: Hashable, Sendable {
        /// Its number.
        public var node: NodeID
        /// The best of its links: one that stands, else what the others came to.
        public var handshake: Handshake
        /// The key it has proven on a connection that we made; nil where none stands.
        public var publicKey: CurvePublicKey?
        /// Why sockets to it cannot be made so far, for people; nil where they are made.
        public var failure: String?
    }

    /// This node's own key; nil for a mesh without CURVE.
    public var publicKey: CurvePublicKey?
    /// Whether both endpoints are bound. They are not for some milliseconds after a key was
    /// withdrawn, or for longer where another program has taken a port meanwhile.
    public var isListening = true
    /// The peers, lowest first.
    public var peers: [Peer] = []
    /// The latest refusals, at most ``RefusalBook/capacity`` of them, in order of first coming.
    public var refusals: [Refusal] = []

    /// A mesh without keys.
    public init() {}
}

/// The latest refusals, bounded: a stranger that knocks with ever new keys displaces the older
/// ones.
struct RefusalBook {
    /// How many are remembered. It is for people to read.
    static let capacity = 32

    private(set) var refusals: [MeshKeyReport.Refusal] = []

    mutating func forget(_ key: CurvePublicKey) { refusals.removeAll { $0.publicKey == key } }

    mutating func note(
        _ reason: MeshKeyReport.Reason, _ key: CurvePublicKey?, of node: NodeID?,
        address: String, now: UInt64
    ) {
        let known = refusals.firstIndex {
            $0.reason == reason && $0.publicKey == key && $0.address == address
        }
        if let known {
            refusals[known].count += 1
            refusals[known].lastMilliseconds = now
            return
        }
        if refusals.count >= Self.capacity { refusals.removeFirst() }
        refusals.append(
            .init(
                reason: reason, publicKey: key, node: node, address: address, count: 1,
                lastMilliseconds: now))
    }
}
