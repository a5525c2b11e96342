import Merge
import Replication

/// Sees all stores at once, and what must never happen to them.
///
/// What is declared stable at a node must be on the disk of every member that runs and is vouched
/// for; and nothing may be applied at the node afterwards that is concurrent with it.
///
/// Two transactions whose pasts have nothing in common touch no common row, so they do no harm:
/// the first saves of a node whose disk was lost, made before it has heard of anybody.
struct StabilityOracle {
    private(set) var faults: [String] = []
    private var seen: [Dot: VersionVector] = [:]
    private(set) var declaredCount = 0
    private(set) var written = VersionVector()

    mutating func learn(_ transaction: EncodedTransaction) {
        written.advance(to: transaction.dot)
        seen[transaction.dot] = transaction.transaction.seen
    }

    mutating func declare(_ vector: VersionVector, at node: FakeNode, of nodes: [FakeNode]) {
        declaredCount += 1
        if !node.store.durable.covers(vector) {
            faults.append("\(node.actor) declared what is not on its own disk")
        }
        for other in nodes where other.isUp && other.store.recovery == .none {
            let membership = node.store.membership
            // Who is a member no more, or not yet, has nothing to say.
            guard membership.isEmpty || membership[other.actor.node]?.isCurrent ?? false,
                other.store.membership[other.actor.node]?.isCurrent ?? membership.isEmpty
            else { continue }
            guard !other.store.durable.covers(vector) else { continue }
            faults.append("\(node.actor) declared what is not on the disk of \(other.actor)")
        }
    }

    mutating func apply(_ transactions: [EncodedTransaction], at node: FakeNode) {
        for transaction in transactions {
            guard !node.store.vector.contains(transaction.dot) else { continue }
            let context = transaction.transaction.seen
            for entry in node.store.declared.entries where context[entry.actor] < entry.sequence {
                for sequence in (context[entry.actor] + 1)...entry.sequence {
                    let dot = Dot(actor: entry.actor, sequence: sequence)
                    guard let past = seen[dot], !past.meet(context).isEmpty else { continue }
                    faults.append("\(transaction.dot) came to \(node.actor) after \(dot)")
                }
            }
        }
    }
}
