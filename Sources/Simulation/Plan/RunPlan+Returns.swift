internal import Replication

/// Nodes that come back with less than they had, in the midst of work, and go on at once: what such a
/// node writes before it has heard from the others is what they must have waited for.
extension RunPlan {
    /// Draws returns, and settings under which others rely soon on what a node has told, while the node
    /// itself is slow.
    mutating func drawReturns() {
        var generator = SeededGenerator(seed: seed &* 0xD6E8_FEB8_6659_FD93 &+ 37)
        guard generator.chance(in: 5) else { return }
        for place in machines.indices where generator.chance(2, in: 3) {
            machines[place].limits.headsMilliseconds = 200
            machines[place].durabilityMilliseconds = 100
        }
        for _ in 0...generator.number(below: 2) {
            let node = generator.number(below: machines.count)
            let time = UInt64(generator.number(below: Int(chaosMilliseconds * 3 / 4)))
            switch generator.number(below: 3) {
            case 0: drawPutBack(node, at: time, &generator)
            case 1: drawMadeAnew(node, at: time, &generator)
            default: drawCopyOfLess(node, at: time, &generator)
            }
        }
    }

    /// A store is put back to what it was a moment before. The file beside it may not know that
    /// state yet.
    private mutating func drawPutBack(
        _ node: Int, at time: UInt64, _ generator: inout SeededGenerator
    ) {
        let length = UInt64(300 + generator.number(below: 4_000))
        if generator.chance(2, in: 3) { machines[node].recordMilliseconds = 2 * length }
        add(.backUp(node: node), at: time, &generator)
        drawWork(of: Array(machines.indices), from: time, to: time + length, &generator)
        let end = time + length
        add(
            .restore(node: node, milliseconds: UInt64(generator.number(below: 300))), at: end,
            &generator)
        if generator.chance(in: 2) {
            let away = UInt64(500 + generator.number(below: 3_000))
            add(.partition(side: [node], isOneWay: false, milliseconds: away), at: end, &generator)
        }
        drawWork(at: node, from: end, to: end + 2_000, count: 3, &generator)
    }

    /// A store is lost, and takes long to get back what the others have.
    private mutating func drawMadeAnew(
        _ node: Int, at time: UInt64, _ generator: inout SeededGenerator
    ) {
        machines[node].limits.applyCount = 1
        machines[node].handoverMicroseconds = UInt64(20_000 + generator.number(below: 180_000))
        // Early, a founder may not have written anything by which the others' stores tell of it.
        let time = generator.chance(in: 2) ? 1_500 + time % 3_000 : time
        let others = machines.indices.filter { $0 != node }
        drawWork(of: others, from: time - min(time, 3_000), to: time, &generator)
        add(
            .wipe(node: node, milliseconds: UInt64(generator.number(below: 300))), at: time,
            &generator)
        drawWork(at: node, from: time, to: time + 3_000, count: 4, &generator)
    }

    /// A node that has purged its history goes on with the copy of one that was away meanwhile.
    private mutating func drawCopyOfLess(
        _ node: Int, at time: UInt64, _ generator: inout SeededGenerator
    ) {
        guard machines.count > 2 else { return }
        let donor = (node + 1 + generator.number(below: machines.count - 1)) % machines.count
        let length = UInt64(2_000 + generator.number(below: 6_000))
        machines[node].historyBytes = UInt64(generator.number(below: 2_000))
        add(.partition(side: [donor], isOneWay: false, milliseconds: length), at: time, &generator)
        drawWork(of: Array(machines.indices), from: time, to: time + length, &generator)
        add(.takeOver(node: node, donor: donor), at: time + length - 100, &generator)
    }

    private mutating func drawWork(
        of nodes: [Int], from first: UInt64, to last: UInt64, _ generator: inout SeededGenerator
    ) {
        for node in nodes {
            drawWork(
                at: node, from: first, to: last, count: 1 + generator.number(below: 2), &generator)
        }
    }
}
