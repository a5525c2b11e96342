import Merge
import TestSupport
import Testing

@Suite("VersionVector")
struct VersionVectorTests {
    @Test("There are four orders, and each is given where it holds")
    func fourOrders() {
        let low = vector([1: 1, 2: 3])
        #expect(low.order(relativeTo: vector([2: 3, 1: 1])) == .equal)
        #expect(low.order(relativeTo: vector([1: 2, 2: 3])) == .before)
        #expect(low.order(relativeTo: vector([1: 1, 2: 2])) == .after)
        #expect(low.order(relativeTo: vector([1: 2, 2: 2])) == .concurrent)
        #expect(low.order(relativeTo: vector([3: 1])) == .concurrent)
    }

    @Test("An actor that is missing counts as zero")
    func missingIsZero() {
        #expect(vector([1: 1])[actor(2)] == 0)
        #expect(VersionVector()[actor(1)] == 0)
        #expect(vector([1: 0, 2: 5]) == vector([2: 5]))
        #expect(vector([1: 0]).isEmpty)
        #expect(VersionVector().order(relativeTo: vector([1: 1])) == .before)
        #expect(VersionVector().order(relativeTo: VersionVector()) == .equal)
        #expect(vector([1: 1]).order(relativeTo: VersionVector()) == .after)
    }

    @Test("Two incarnations of one node are two actors")
    func incarnationsDiffer() {
        let old = VersionVector([.init(actor: actor(1, incarnation: 1), sequence: 5)])
        let new = VersionVector([.init(actor: actor(1, incarnation: 2), sequence: 5)])
        #expect(old.order(relativeTo: new) == .concurrent)
    }

    @Test("A vector contains a dot and all before it, and no later one")
    func containsByContiguity() {
        let known = vector([2: 3])
        #expect(known.contains(dot(2, 1)))
        #expect(known.contains(dot(2, 3)))
        #expect(!known.contains(dot(2, 4)))
        #expect(!known.contains(dot(1, 1)))
    }

    @Test("Advancing to a lower sequence changes nothing")
    func advanceIsMonotone() {
        var known = vector([1: 5])
        known.advance(actor(1), to: 3)
        known.advance(actor(2), to: 0)
        #expect(known == vector([1: 5]))
        known.advance(to: dot(1, 6))
        #expect(known == vector([1: 6]))
    }

    @Test("Only strictly rising actors with positive sequences are canonical")
    func canonicalForm() {
        let first = VersionVector.Entry(actor: actor(1), sequence: 1)
        let second = VersionVector.Entry(actor: actor(2), sequence: 1)
        let zero = VersionVector.Entry(actor: actor(3), sequence: 0)
        #expect(VersionVector(canonical: [first, second])?.entries == [first, second])
        #expect(VersionVector(canonical: [second, first]) == nil)
        #expect(VersionVector(canonical: [first, first]) == nil)
        #expect(VersionVector(canonical: [first, zero]) == nil)
    }

    @Test("Join and meet are a lattice: the least above and the greatest below")
    func latticeLaws() {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<1500 {
            let (a, b, c) = (any(&random), any(&random), any(&random))
            let join = a.joined(b)
            let meet = a.meet(b)
            let isLaw =
                join == b.joined(a) && meet == b.meet(a)
                && join.joined(c) == a.joined(b.joined(c))
                && meet.meet(c) == a.meet(b.meet(c))
                && a.joined(a) == a && a.meet(a) == a
                && a.joined(meet) == a && a.meet(join) == a
                && join.covers(a) && join.covers(b) && a.covers(meet) && b.covers(meet)
                && (!(c.covers(a) && c.covers(b)) || c.covers(join))
                && (!(a.covers(c) && b.covers(c)) || meet.covers(c))
            #expect(isLaw, "a \(a.entries) b \(b.entries) c \(c.entries)")
        }
    }

    @Test("The order is the one that comparing actor by actor gives")
    func orderMatchesPointwise() {
        var random = SeededGenerator(seed: 12)
        var met: Set<String> = []
        for _ in 0..<1500 {
            let (a, b) = (any(&random), any(&random))
            let less = (1...4).contains { a[actor($0)] < b[actor($0)] }
            let more = (1...4).contains { a[actor($0)] > b[actor($0)] }
            let expected: CausalOrder =
                switch (less, more) {
                case (false, false): .equal
                case (true, false): .before
                case (false, true): .after
                case (true, true): .concurrent
                }
            met.insert("\(expected)")
            if a.order(relativeTo: b) != expected {
                Issue.record("\(a.entries) is \(expected) relative to \(b.entries)")
            }
        }
        #expect(met.count == 4)
    }

    private func any(_ random: inout SeededGenerator) -> VersionVector {
        var result = VersionVector()
        for number in 1...4 { result.advance(actor(number), to: UInt64(random.below(3))) }
        return result
    }
}
