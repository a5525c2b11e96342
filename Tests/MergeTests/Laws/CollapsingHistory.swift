import Merge
import TestSupport

/// A random history in which nodes collapse and collect when their reports allow it.
///
/// A dot is stable at a node when every node's report has it and the node has applied all that
/// the reports hold of the reporters' own writes (DESIGN section 8). Reports are old: each is a
/// copy of what its node had applied at some earlier time.
struct CollapsingHistory {
    private(set) var history: RecordedHistory
    private(set) var failure: String?
    /// How often something collapsed.
    private(set) var collapses = 0
    /// How often a tombstone went.
    private(set) var collections = 0
    /// How often a node took another's state over.
    private(set) var joins = 0

    private var random: SeededGenerator
    private var states: [RowState]
    private var applied: [PositionSet]
    /// By holder, then reporter: what the reporter had applied when it last reported there.
    private var reports: [[PositionSet]]
    private let nodes = 3

    init(_ policyCase: PolicyCase, seed: UInt64) {
        random = SeededGenerator(seed: seed)
        history = RecordedHistory(policyCase.policies)
        states = Array(repeating: RowState(propertyCount: 2), count: nodes)
        applied = Array(repeating: PositionSet(), count: nodes)
        reports = Array(repeating: Array(repeating: PositionSet(), count: nodes), count: nodes)
    }

    mutating func run() {
        let length = 4 + random.below(9)
        write(node: 0)
        while history.writes.count < length, failure == nil {
            let node = random.below(nodes)
            switch random.below(9) {
            case 8: join(node, with: random.below(nodes))
            case 0: if applied[node].bits != 0 { write(node: node) }
            case 1, 2: collapse(at: node)
            case 3, 4:
                let reporter = random.below(nodes)
                reports[node][reporter] = applied[reporter]
            default: deliver(to: node)
            }
        }
        for node in 0..<nodes {
            while failure == nil, deliver(to: node) {}
            compare(node)
        }
        for node in 0..<nodes { reports[node] = applied }
        collapse(at: 0)
        for node in 0..<nodes { compare(node) }
    }

    /// What is stable at the node; nil where it has yet to apply what a report holds of the
    /// reporter's own writes.
    private func stable(at node: Int) -> PositionSet? {
        var common = applied[node].bits
        for reporter in 0..<nodes where reporter != node {
            let report = reports[node][reporter]
            for position in history.writes.indices
            where history.writes[position].node == reporter + 1 && report.contains(position) {
                guard applied[node].contains(position) else { return nil }
            }
            common &= report.bits
        }
        return PositionSet(bits: common)
    }

    private mutating func collapse(at node: Int) {
        guard let stable = stable(at: node) else { return }
        let vector = history.vector(stable)
        let before = states[node]
        let removed = states[node].collapse(stable: vector, policies: history.policies)
        if !removed.isEmpty { collapses += 1 }
        if removed.isEmpty, states[node] != before { failure = "a silent change" }
        compare(node)
        let row = history.reference(applied[node])
        let mayGo = !row.version.isEmpty && !row.isAlive && row.version.allSatisfy(stable.contains)
        if !states[node].isEmpty,
            states[node].isCollectable(stable: vector, policies: history.policies) != mayGo
        {
            failure = "collectable should be \(mayGo)"
        }
        if mayGo, !states[node].isEmpty, random.once(in: 2) {
            states[node] = RowState(propertyCount: 2)
            collections += 1
        }
    }

    /// A collected row shows nothing, as a dead one does; any other shows what the reference does.
    private mutating func compare(_ node: Int) {
        guard failure == nil else { return }
        if states[node].isEmpty, !history.reference(applied[node]).isAlive { return }
        if let difference = history.difference(states[node], applied[node], collapsed: true) {
            failure = "node \(node + 1): \(difference)"
        }
    }

    /// Takes over what another node has, without a word of what either did.
    private mutating func join(_ node: Int, with other: Int) {
        let union = PositionSet(bits: applied[node].bits | applied[other].bits)
        if union.bits == applied[node].bits { return }
        states[node].join(
            states[other], seen: history.vector(applied[node]),
            otherSeen: history.vector(applied[other]))
        applied[node] = union
        joins += 1
        compare(node)
    }

    private mutating func write(node: Int) {
        let fresh = 10 * history.writes.count
        let (kind, values): (ReferenceWrite.Kind, [Int?])
        if applied[node].bits == 0 {
            (kind, values) = (.insert, [1, 2])
        } else if !history.reference(applied[node]).isAlive {
            (kind, values) = (.revival, [fresh, fresh + 1])
        } else {
            switch random.below(4) {
            case 0: (kind, values) = (.delete, [nil, nil])
            case 1: (kind, values) = (.update, [fresh, fresh + 1])
            case 2: (kind, values) = (.update, [nil, fresh + 1])
            default: (kind, values) = (.update, [fresh, nil])
            }
        }
        let time = history.latestTime(applied[node]) + 1 + random.below(3)
        history.append(
            node: node + 1, time: time, past: applied[node], kind: kind, values: values)
        apply(history.writes.count - 1, at: node)
    }

    /// Applies one write that may come next; false where there is none.
    @discardableResult
    private mutating func deliver(to node: Int) -> Bool {
        let start = random.below(history.writes.count)
        guard let position = history.deliverable(after: applied[node], from: start) else {
            return false
        }
        apply(position, at: node)
        return true
    }

    private mutating func apply(_ position: Int, at node: Int) {
        do { try history.apply(position, to: &states[node]) } catch {
            failure = "node \(node + 1), write \(position): alarm \(error)"
        }
        applied[node] = applied[node].with(position)
        compare(node)
    }
}
