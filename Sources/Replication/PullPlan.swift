import Merge

/// Decides which peer to ask for which missing transactions. Peers are asked for different things:
/// what one was asked for counts as coming. Writers are preferred, because they have their own for
/// certain.
///
/// Of one whose log is too short nothing counts as coming: else another would never be asked for
/// what that one lacks, and nobody would find that its log is too short as well.
struct PullPlan: Hashable, Sendable {
    /// A pull from the peer at the place, of what the vector does not cover.
    struct Step: Hashable, Sendable {
        var index: Int
        var beyond: VersionVector
    }

    /// At most this many pulls at once: each may bring a page into memory.
    static let pullsAtOnce = 4

    /// The pulls, in order.
    private(set) var steps: [Step] = []
    /// Whether peers have more that is not coming: they are looked at again soon.
    private(set) var isIncomplete: Bool

    /// - Parameters:
    ///   - candidates: the places of those that may be asked, in order.
    ///   - possessed: what is here, and what is not to be asked for.
    init(
        _ peers: [PeerProgress], candidates: [Int], possessed: VersionVector, now: UInt64,
        limits: Limits
    ) {
        var coming = possessed
        var outstanding = 0
        for peer in peers {
            guard let pulling = peer.pulling else { continue }
            outstanding += 1
            // An answer that is overdue may still come, but others need not wait for it.
            if now < pulling.askedAt + limits.pullTimeoutMilliseconds, !peer.isHistoryShort {
                coming.join(pulling.target)
            }
        }
        var asked = Set<Int>()
        for wantsWriter in [true, false] {
            for index in candidates where outstanding + asked.count < Self.pullsAtOnce {
                guard !asked.contains(index), !coming.covers(peers[index].vector),
                    !wantsWriter || peers[index].isWriter(beyond: coming)
                else { continue }
                steps.append(Step(index: index, beyond: coming))
                asked.insert(index)
                if !peers[index].isHistoryShort { coming.join(peers[index].vector) }
            }
        }
        isIncomplete = peers.contains { $0.isAgreed && !coming.covers($0.vector) }
    }

    /// All that peers have of actors whose model is not known here: it is not asked for, because it
    /// could not be applied.
    static func blocked(_ holds: [CausalQueue.Hold], _ peers: [PeerProgress]) -> VersionVector {
        var vector = VersionVector()
        for hold in holds {
            guard case .unknownModel = hold.reason else { continue }
            for peer in peers {
                let sequence = peer.vector[hold.dot.actor]
                if sequence > 0 { vector.advance(hold.dot.actor, to: sequence) }
            }
        }
        return vector
    }

    /// The peers from the one after a node on, so that nodes do not all ask the first; those that
    /// answered lately before those that did not.
    static func order(_ peers: [PeerProgress], after node: NodeID) -> [Int] {
        let first = peers.firstIndex { $0.node > node } ?? peers.endIndex
        let around = Array(first..<peers.endIndex) + Array(0..<first)
        return around.enumerated().sorted {
            (peers[$0.element].failures, $0.offset) < (peers[$1.element].failures, $1.offset)
        }.map(\.element)
    }
}
