import Merge
import TestSupport
import Testing

/// What vectors need not name.
@Suite struct BeginningsTests {
    /// Nodes that save, restart, hear of each other in causal order, and are put back to what they
    /// were once; each knows the beginnings of what it has.
    private struct Cluster {
        struct Node {
            var vector = VersionVector()
            var beginnings = Beginnings()
            var actor: ActorID
        }

        private(set) var nodes: [Node]
        /// Every vector that a store ever had.
        private(set) var vectors: [VersionVector] = [VersionVector()]
        /// What each transaction has seen, as a whole.
        private var seen: [Dot: VersionVector] = [:]
        private var told: [Dot: VersionVector] = [:]
        private var kept: [Node]
        private var incarnations: UInt64 = 0
        /// Actors that saved by a program that told no beginning.
        private var untold = Set<ActorID>()
        private var generator: SeededGenerator

        init(count: Int, seed: UInt64) {
            generator = SeededGenerator(seed: seed)
            nodes = (1...count).map { Node(actor: actor($0, incarnation: 0)) }
            kept = nodes
            for index in nodes.indices { restart(index) }
        }

        private mutating func restart(_ index: Int) {
            incarnations += 1
            let old = nodes[index].actor
            nodes[index].actor = ActorID(node: old.node, incarnation: incarnations)
            if generator.once(in: 10) { untold.insert(nodes[index].actor) }
        }

        private mutating func save(_ index: Int) throws {
            let node = nodes[index]
            let dot = Dot(actor: node.actor, sequence: node.vector[node.actor] + 1)
            let frontier = node.beginnings.frontier(of: node.vector, naming: node.actor)
            #expect(frontier[node.actor] == dot.sequence - 1)
            seen[dot] = node.vector
            told[dot] = frontier
            try take(dot, index)
        }

        /// Applies a transaction by what it says alone.
        private mutating func take(_ dot: Dot, _ index: Int) throws {
            let frontier = try #require(told[dot])
            let whole = try #require(seen[dot])
            // Law 2, and so may delivery go by it.
            #expect(nodes[index].vector.covers(whole) == nodes[index].vector.covers(frontier))
            guard nodes[index].vector.covers(frontier),
                nodes[index].vector[dot.actor] == dot.sequence - 1
            else { return }
            // Law 1, at every node that applies it.
            #expect(nodes[index].beginnings.closure(of: frontier) == whole)
            nodes[index].vector.advance(to: dot)
            if dot.sequence == 1, !untold.contains(dot.actor) {
                nodes[index].beginnings.note(dot.actor, frontier)
            }
            vectors.append(nodes[index].vector)
        }

        mutating func step() throws {
            let index = generator.below(nodes.count)
            switch generator.below(12) {
            case 0..<4: try save(index)
            case 4: restart(index)
            case 5: kept[index] = nodes[index]
            case 6 where generator.once(in: 4):
                nodes[index].vector = kept[index].vector
                nodes[index].beginnings = kept[index].beginnings
                restart(index)
            case 7 where generator.once(in: 4):
                // A copy of another's store is joined with one's own.
                let other = nodes[generator.below(nodes.count)]
                nodes[index].vector.join(other.vector)
                nodes[index].beginnings.join(other.beginnings)
                vectors.append(nodes[index].vector)
                restart(index)
            default:
                let other = nodes[generator.below(nodes.count)].vector
                for entry in other.entries {
                    let known = nodes[index].vector[entry.actor]
                    if known < entry.sequence {
                        try take(Dot(actor: entry.actor, sequence: known + 1), index)
                    }
                }
            }
        }
    }

    @Test("A closed vector is its frontier's closure, for every sender and every reader")
    func laws() throws {
        var left = 0
        for seed in 1...40 as ClosedRange<UInt64> {
            var cluster = Cluster(count: 4, seed: seed)
            for _ in 0..<300 { try cluster.step() }
            let everything = cluster.nodes.reduce(into: Beginnings()) { $0.join($1.beginnings) }
            for vector in cluster.vectors {
                for node in cluster.nodes {
                    let teller = node.beginnings
                    let frontier = teller.frontier(of: vector)
                    #expect(vector.covers(frontier))
                    left += vector.entries.count - frontier.entries.count
                    #expect(everything.closure(of: frontier) == vector)
                    // Who knows less reads less, and nothing that is not there.
                    for reader in cluster.nodes {
                        #expect(vector.covers(reader.beginnings.closure(of: frontier)))
                    }
                }
            }
            // Meets and joins of closed vectors are closed.
            for (one, other) in zip(cluster.vectors, cluster.vectors.dropFirst(50)) {
                for vector in [one.meet(other), one.joined(other)] {
                    let frontier = everything.frontier(of: vector)
                    #expect(everything.closure(of: frontier) == vector)
                }
            }
        }
        #expect(left > 100_000)
    }

    @Test("Where every opening has seen all before, a frontier names one actor a node")
    func length() {
        var beginnings = Beginnings()
        var vector = VersionVector()
        for incarnation in 1...200 as ClosedRange<UInt64> {
            for node in 1...3 as ClosedRange<Int> {
                let one = actor(node, incarnation: incarnation)
                beginnings.note(one, beginnings.frontier(of: vector))
                vector.advance(one, to: 5)
            }
        }
        #expect(vector.entries.count == 600)
        #expect(beginnings.frontier(of: vector).entries.count <= 3)
        let named = actor(1, incarnation: 7)
        #expect(beginnings.frontier(of: vector, naming: named)[named] == 5)
    }

    @Test("In whatever order beginnings are noted, they say the same")
    func order() {
        var beginnings = Beginnings()
        var vector = VersionVector()
        for incarnation in 1...20 as ClosedRange<UInt64> {
            let one = actor(Int(incarnation % 3 + 1), incarnation: incarnation)
            beginnings.note(one, beginnings.frontier(of: vector))
            vector.advance(one, to: 2)
        }
        var reversed = Beginnings()
        for actor in beginnings.actors.reversed() {
            if let frontier = beginnings[actor] { reversed.note(actor, frontier) }
        }
        #expect(reversed == beginnings)
        #expect(reversed.frontier(of: vector) == beginnings.frontier(of: vector))
    }
}
