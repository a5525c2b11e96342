import Merge

/// For whom a frame counts, by the node that it names and the socket that it came over.
enum Admission: Hashable, Sendable {
    /// For the peer that it names.
    case peer(NodeID)
    /// A member tells of another live process under this node's number.
    case introduction(Heads)
    /// For nobody, and people are to know it.
    case alarm(Alarm)
    /// For nobody.
    case nobody

    init(_ envelope: Envelope, from socket: NodeID?, own: ActorID) {
        let sender = envelope.sender
        guard sender == own.node else {
            if let socket, socket != sender {
                self = .alarm(.unexpectedSender(expected: socket, claimed: sender))
            } else {
                self = .peer(sender)
            }
            return
        }
        // An incarnation is one process's: at a peer's address this node has found itself. What names
        // none tells nothing, and heads come from everybody.
        switch envelope.message {
        case .heads(let heads) where heads.met.contains { $0.node == own.node }:
            self = .introduction(heads)
        case .heads(let heads) where heads.actor != own, .hello(let heads) where heads.actor != own:
            self = .alarm(.twoNodesWithOneID(sender, incarnation: nil))
        case .heads, .hello:
            if let socket, socket != own.node {
                self = .alarm(.unexpectedSender(expected: socket, claimed: sender))
            } else {
                self = .nobody
            }
        default: self = .nobody
        }
    }
}

extension MessageFailure {
    /// Why the sender of a foreign frame is refused, and the number that the frame names; nil for one
    /// that could not be decoded.
    func refusal(cluster: String) -> (refusal: Refusal, claimed: NodeID)? {
        switch self {
        case .undecodable: nil
        case .otherRevision(let revision, let claimed):
            (
                Refusal(
                    part: .revision, ours: String(Message.revision), theirs: String(revision)),
                claimed
            )
        case .otherCluster(let theirs, let claimed):
            (Refusal(part: .cluster, ours: cluster, theirs: theirs), claimed)
        }
    }
}
