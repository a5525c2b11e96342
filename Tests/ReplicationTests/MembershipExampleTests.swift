import Merge
import Replication
import Testing

/// MODEL.md's examples of members that come and go, each at the node X that would have collected too
/// early: node 1, which gets its reports by hand. The stores of the random histories are beside it.
@Suite("MODEL.md's examples of members")
struct MembershipExampleTests {
    private static let own = Reporter.own
    private static let second = Reporter.second
    private static let third = Reporter.third

    private func changes(
        _ dot: Dot, seen: VersionVector, _ changes: [MembershipChange]
    ) -> EncodedTransaction {
        EncodedTransaction(
            Transaction(
                dot: dot,
                timestamp: HybridTimestamp(milliseconds: World.wallStart, counter: 0) ?? .zero,
                seen: seen, modelHash: model, shapes: MembershipChange.shapes,
                changes: changes.map(\.change)))
    }

    private func joins(_ nodes: [Int]) -> [MembershipChange] {
        nodes.map { .join(World.id($0), World.address) }
    }

    @Test("P16: what a retired node saved and one member alone has comes before X collects")
    func retirement() {
        var node = Reporter()
        let d = node.save(1)
        // K is node 2 and R is node 3. R never reports d: its u, which has not seen d, is on its way.
        let u = makeTransaction(dot(Self.third, 1), seen: VersionVector())
        node.heads(Self.third)
        node.heads(Self.second, [d])
        #expect(!node.stable().contains(d))
        let retirement = changes(
            dot(Self.second, 1), seen: node.store.vector,
            joins([1, 2, 3]) + [.depart(World.id(3), isRetired: true)])
        node.heads(Self.second, [d], vector: [d, retirement.dot])
        node.page([retirement], from: 2)
        #expect(node.store.membership.current == [World.id(1), World.id(2)])
        // K's report from before it had applied the retirement does not count: u may reach it yet.
        #expect(node.hindrance(2) == .hasNotApplied(departureOf: World.id(3)))
        #expect(!node.stable().contains(d))
        // The one from after it has u, which X must have first.
        node.heads(Self.second, [d, retirement.dot, u.dot], met: [Self.own])
        #expect(node.hindrance(2) == .behind(missing: 1))
        #expect(!node.stable().contains(d))
        node.page([u], from: 2)
        #expect(node.stable().contains(d))
    }

    @Test(
        "P17: X collects nothing that a joiner may lack, once it uses a report made after the join")
    func join() {
        var node = Reporter(peers: [2])
        let d = node.save(1)
        // K is node 2. It joins Z, node 3, which starts from a state without d; then it applies d.
        let join = changes(dot(Self.second, 1), seen: VersionVector(), joins([1, 2, 3]))
        node.heads(Self.second, [d, join.dot], met: [Self.own])
        // The join is K's own transaction, before its report: X must have it to use the report.
        #expect(node.hindrance(2) == .behind(missing: 1))
        #expect(!node.stable().contains(d))
        node.page([join], from: 2)
        #expect(node.store.membership.current == [1, 2, 3].map(World.id))
        #expect(node.hindrance(3) == .nothingHeard)
        #expect(!node.stable().contains(d))
        node.heads(Self.third, [join.dot])
        #expect(!node.stable().contains(d))
        node.heads(Self.second, [d, join.dot])
        node.heads(Self.third, [d, join.dot])
        #expect(node.stable().contains(d))
    }

    @Test("P20: a save a year ahead holds its writer's reports back until that is retired")
    func farFuture() {
        var node = Reporter()
        let year: UInt64 = 31_536_000_000
        let d = node.save(1)
        let far = makeTransaction(
            dot(Self.third, 1), seen: VersionVector(), milliseconds: World.wallStart + year)
        let next = makeTransaction(
            dot(Self.third, 2), seen: VersionVector([.init(actor: Self.third, sequence: 1)]),
            milliseconds: World.wallStart + year)
        node.heads(Self.second, [d])
        node.heads(Self.third, [d, far.dot, next.dot])
        node.page([far, next], from: 3)
        #expect(node.replicator.status.held.map(\.dot) == [far.dot])
        #expect(node.store.vector[Self.third] == 0)
        #expect(node.hindrance(3) == .behind(missing: 2))
        #expect(!node.stable().contains(d))
        let retirement = changes(
            dot(Self.second, 1), seen: node.store.vector,
            joins([1, 2, 3]) + [.depart(World.id(3), isRetired: true)])
        node.heads(Self.second, [d, retirement.dot])
        node.page([retirement], from: 2)
        node.heads(Self.second, [d, retirement.dot], met: [Self.own])
        #expect(node.replicator.status.held.isEmpty)
        #expect(node.stable().contains(d))
    }
}
