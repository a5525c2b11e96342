import Merge
import TestSupport
import Testing

/// Longer histories than can be enumerated, from fixed seeds.
@Suite("Random histories")
struct RandomHistoryTests {
    /// With eight policies this makes 104,000 histories.
    static let histories = 13_000

    @Test(
        "Four nodes that apply the same writes in their own orders show what the reference does",
        arguments: Array(PolicyCase.all.enumerated()))
    func randomHistoriesConverge(_ numbered: (offset: Int, element: PolicyCase)) {
        var writes = 0
        var concurrent = 0
        for run in 0..<Self.histories {
            var world = RandomHistory(
                numbered.element, seed: UInt64(numbered.offset) << 32 | UInt64(run))
            world.run()
            writes += world.history.writes.count
            if world.sawConflict { concurrent += 1 }
            if let failure = world.failure {
                Issue.record("seed \(run): \(failure)\n\(world.history.story)")
                return
            }
        }
        #expect(writes > 5 * Self.histories, "the histories are too short to mean anything")
        #expect(concurrent > Self.histories / 4, "too few histories had a conflict")
    }
}

/// One history of up to twelve writes by four nodes that hear of each other late and in any
/// causally valid order.
struct RandomHistory {
    private(set) var history: RecordedHistory
    private(set) var failure: String?
    /// Whether some node met concurrent writes that differ.
    private(set) var sawConflict = false

    private var random: SeededGenerator
    private var states: [RowState]
    private var applied: [PositionSet]
    private let length: Int

    static let nodes = 4

    init(_ policyCase: PolicyCase, seed: UInt64) {
        random = SeededGenerator(seed: seed)
        length = 2 + random.below(11)
        history = RecordedHistory(policyCase.policies)
        states = Array(repeating: RowState(propertyCount: 2), count: Self.nodes)
        applied = Array(repeating: PositionSet(), count: Self.nodes)
    }

    mutating func run() {
        write(node: 0)
        while history.writes.count < length, failure == nil {
            let node = random.below(Self.nodes)
            if random.once(in: 3) || !deliver(to: node), applied[node].bits != 0 {
                write(node: node)
            }
        }
        // Two nodes hear of everything, each in an order of its own; the others stay behind.
        for node in [0, 1 + random.below(Self.nodes - 1)] {
            while failure == nil, deliver(to: node) {}
            compare(node)
        }
        for node in 2..<Self.nodes { compare(node) }
        for node in 1..<Self.nodes
        where applied[node] == applied[0] && states[node] != states[0] {
            failure = failure ?? "nodes 1 and \(node + 1) differ"
        }
    }

    private mutating func compare(_ node: Int) {
        guard failure == nil else { return }
        if let difference = history.difference(states[node], applied[node]) {
            failure = "node \(node + 1): \(difference)"
        }
        if !states[node].conflicts(history.policies).isEmpty { sawConflict = true }
    }

    private mutating func write(node: Int) {
        let position = history.writes.count
        let (kind, values) = choice(applied[node])
        // Later than all it saw; concurrent writes may well read the same time.
        let time = history.latestTime(applied[node]) + 1 + random.below(3)
        history.append(
            node: node + 1, time: time, past: applied[node], kind: kind, values: values)
        apply(position, at: node)
    }

    private mutating func choice(
        _ view: PositionSet
    ) -> (ReferenceWrite.Kind, [Int?]) {
        let fresh = 10 * history.writes.count
        if view.bits == 0 {
            // A property may be unknown to the insert, as one that a migration added.
            return (.insert, [1, random.once(in: 4) ? nil : 2])
        }
        guard history.reference(view).isAlive else { return (.revival, [fresh, fresh + 1]) }
        switch random.below(7) {
        case 0: return (.delete, [nil, nil])
        case 1, 2: return (.update, [fresh, nil])
        case 3: return (.update, [nil, fresh + 1])
        case 4: return (.update, [fresh, fresh + 1])
        default: return (.update, [random.below(2), nil])
        }
    }

    /// Applies one write that may come next; false where there is none.
    private mutating func deliver(to node: Int) -> Bool {
        let start = random.below(history.writes.count)
        guard let position = history.deliverable(after: applied[node], from: start) else {
            return false
        }
        apply(position, at: node)
        return true
    }

    private mutating func apply(_ position: Int, at node: Int) {
        do { try history.apply(position, to: &states[node]) } catch { failure = "alarm \(error)" }
        applied[node] = applied[node].with(position)
    }
}
