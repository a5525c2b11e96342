import Merge
import Testing

/// Every small history, in every causally valid order of delivery.
///
/// The orders are not listed one by one: for every set of writes closed under causality, and
/// every write that can be the last of it, the state with that write applied last must be the
/// same. By induction that is every order.
@Suite("Every small history")
struct ExhaustiveHistoryTests {
    @Test(
        "Every order of delivery gives one state, the one the reference computes",
        arguments: PolicyCase.all)
    func everyOrderGivesTheReferencesState(_ policyCase: PolicyCase) {
        var enumeration = HistoryEnumeration(policyCase, depth: 4)
        enumeration.run()
        #expect(enumeration.failure == nil)
        #expect(enumeration.histories > 20_000, "the enumeration went empty")
        #expect(enumeration.orders > 80_000, "the enumeration went empty")
        #expect(enumeration.joins > 80_000, "the enumeration went empty")
    }
}

/// Grows histories write by write and checks each as it grows, so that what two histories have in
/// common is checked once.
struct HistoryEnumeration {
    /// Histories checked: each has an insert that all have seen and up to `depth` more writes.
    private(set) var histories = 0
    /// Pairs of a causally closed set and the write applied last to it.
    private(set) var orders = 0
    /// Pairs of causally closed sets, neither part of the other, whose states were joined.
    private(set) var joins = 0
    /// What went wrong first.
    private(set) var failure: String?

    private let depth: Int
    private var history: RecordedHistory
    /// The state of every causally closed set, by its bits.
    private var states: [RowState?]

    init(_ policyCase: PolicyCase, depth: Int) {
        self.depth = depth
        history = RecordedHistory(policyCase.policies)
        states = Array(repeating: nil, count: 1 << (depth + 1))
    }

    mutating func run() {
        history.append(node: 4, time: 1, past: PositionSet(), kind: .insert, values: [1, 2])
        var state = RowState(propertyCount: 2)
        do { try history.apply(0, to: &state) } catch { failure = "\(error)" }
        states[1] = state
        extend(writersSoFar: 0)
    }

    private mutating func extend(writersSoFar: Int) {
        let count = history.writes.count
        guard count <= depth, failure == nil else { return }
        // Nodes are named in the order in which they first write: other names change nothing.
        for writer in 1...min(writersSoFar + 1, 3) {
            let own = history.writes.indices.filter { history.writes[$0].node == writer }
            for bits in 1..<UInt32(1 << count) {
                let past = PositionSet(bits: bits)
                guard states[Int(bits)] != nil, own.allSatisfy(past.contains) else { continue }
                for (kind, values) in choices(past) {
                    history.append(
                        node: writer, time: count + 1, past: past, kind: kind, values: values)
                    histories += 1
                    check()
                    extend(writersSoFar: max(writersSoFar, writer))
                    for bits in 1 << count..<1 << (count + 1) { states[bits] = nil }
                    history.removeLast()
                    if failure != nil { return }
                }
            }
        }
    }

    /// What a writer may do who has seen so much: a live row is updated or deleted, a dead one
    /// revived.
    private func choices(_ past: PositionSet) -> [(ReferenceWrite.Kind, [Int?])] {
        let fresh = 10 * history.writes.count
        guard history.reference(past).isAlive else { return [(.revival, [fresh, fresh + 1])] }
        // The last of the longest histories only asks what matters: does it touch both, or delete.
        if history.writes.count == depth {
            return [(.update, [fresh, fresh + 1]), (.delete, [nil, nil])]
        }
        return [
            (.update, [fresh, nil]), (.update, [nil, fresh + 1]),
            (.update, [fresh, fresh + 1]), (.update, [7, nil]), (.delete, [nil, nil]),
        ]
    }

    /// Checks every causally closed set that the newest write belongs to.
    private mutating func check() {
        let newest = history.writes.count - 1
        for bits in UInt32(1 << newest)..<UInt32(1 << (newest + 1)) {
            let set = PositionSet(bits: bits)
            guard states[Int(set.without(newest).bits)] != nil,
                set.contains(history.writes[newest].past)
            else { continue }
            var result: RowState?
            for last in 1...newest where set.contains(last) {
                guard var state = states[Int(set.without(last).bits)] else { continue }
                orders += 1
                do {
                    try history.apply(last, to: &state)
                    if let result, state != result { return fail("orders differ", set) }
                    guard result == nil else { continue }
                    result = state
                    try history.apply(last, to: &state)
                    if state != result { return fail("applying twice differs", set) }
                } catch { return fail("alarm \(error)", set) }
            }
            if let result, let difference = history.difference(result, set) {
                return fail(difference, set)
            }
            states[Int(bits)] = result
        }
        checkJoins()
    }

    /// Joins the states of all sets that the newest write belongs to with those that lack it.
    private mutating func checkJoins() {
        let newest = history.writes.count - 1
        for bits in UInt32(1 << newest)..<UInt32(1 << (newest + 1)) {
            guard let state = states[Int(bits)] else { continue }
            let set = PositionSet(bits: bits)
            for otherBits in 1..<UInt32(1 << newest) where bits | otherBits != bits {
                guard let other = states[Int(otherBits)] else { continue }
                joins += 1
                let otherSet = PositionSet(bits: otherBits)
                let both = PositionSet(bits: bits | otherBits)
                let (seen, otherSeen) = (history.vector(set), history.vector(otherSet))
                var joined = state
                joined.join(other, seen: seen, otherSeen: otherSeen)
                var turned = other
                turned.join(state, seen: otherSeen, otherSeen: seen)
                if joined != turned { return fail("joining is not symmetric", both) }
                if joined != states[Int(both.bits)] { return fail("a join differs", both) }
            }
        }
    }

    private mutating func fail(_ what: String, _ set: PositionSet) {
        failure = "\(what)\napplied: \(String(set.bits, radix: 2))\n\(history.story)"
    }
}
