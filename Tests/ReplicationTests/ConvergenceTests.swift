import Merge
import Replication
import Testing

@Suite("Nodes converge over a network that loses, repeats and reorders")
struct ConvergenceTests {
    @Test("A save reaches the others by one notification, without a pull")
    func notification() {
        let world = World(seed: 1, started: 3)
        world.run(500)
        world.save(0)
        world.run(20)
        #expect(world.nodes[1].store.log.count == 1)
        #expect(world.nodes[2].store.log.count == 1)
        #expect(world.status(1).gauges.pullCount == 0)
    }

    @Test("A group of small saves goes out in one frame")
    func grouping() {
        let world = World(seed: 1, started: 2)
        world.run(500)
        let before = world.status(1).gauges.receivedCount
        world.save(0, count: 50)
        world.run(10)
        #expect(world.nodes[1].store.log.count == 50)
        #expect(world.status(1).gauges.receivedCount == before + 1)
    }

    @Test("A lost notification is repaired by a pull as soon as the next one shows the gap")
    func gap() {
        let world = World(seed: 2, started: 2)
        world.run(500)
        world.faults.publishLoss = 1
        world.save(0)
        world.faults.publishLoss = 0
        world.save(0)
        world.run(20)
        #expect(world.nodes[1].store.log.count == 2)
        #expect(world.status(1).gauges.pullCount == 1)
    }

    @Test("With every publication lost, heads over the exchange and pulls suffice")
    func nothingPublished() {
        let world = World(seed: 3)
        world.addNodes(3)
        world.faults.publishLoss = 1
        world.start()
        for round in 0..<50 {
            world.save(round % 3)
            world.run(100)
        }
        world.run(5_000)
        #expect(world.isConverged)
        #expect(world.nodes[0].store.log.count == 50)
    }

    /// Seed 39 once waited half a minute for an answer that was lost, with two idle peers at hand.
    @Test(
        "Over a link on which a page takes longer than it is waited for, all comes",
        arguments: [4_000, 6_000, 20_000, 100_000] as [UInt64])
    func slowLink(bytesPerSecond: UInt64) {
        let world = World(seed: 4)
        world.limits.pageBytes = 400_000
        world.addNodes(2)
        world.cut = [102]
        world.start()
        for _ in 0..<20 { world.save(0, count: 10, bytes: 5_000) }
        world.run(500)
        world.faults.bytesPerSecond = bytesPerSecond
        world.cut = []
        // Twice as long as the link takes for it, and what the first pages take that are too large.
        world.run(2 * 1_000_000 * 1_000 / bytesPerSecond + 400_000)
        #expect(world.isConverged)
        #expect(world.nodes[1].store.log.count == 200)
    }

    @Test("Loss, repetition and reordering everywhere", arguments: [39] + Array(1...20))
    func everythingGoesWrong(seed: UInt64) {
        let world = World(seed: seed)
        world.addNodes(4)
        world.faults = .init(publishLoss: 0.4, exchangeLoss: 0.2, repeats: 0.3, delay: 1...200)
        world.start()
        for round in 0..<200 {
            world.save((round * 7 + Int(seed)) % 4, count: 1 + round % 3)
            world.run(UInt64(round % 40))
        }
        world.run(60_000)
        #expect(world.isConverged)
        #expect(world.nodes[0].store.log.count == 399)
        #expect(world.nodes.allSatisfy { $0.alarms.isEmpty && $0.quarantined.isEmpty })
        let gauges = world.status(0).gauges
        #expect(gauges.waitingCount == 0 && gauges.waitingBytes == 0)
        #expect(gauges.applyingCount == 0 && gauges.applyingBytes == 0)
    }

    @Test("Both sides of a partition go on, and converge after it heals")
    func partition() {
        let world = World(seed: 4, started: 3)
        world.run(1_000)
        world.cut = [102, 103]
        for _ in 0..<40 {
            world.save(0)
            world.save(1)
            world.save(2)
            world.run(250)
        }
        #expect(world.nodes[0].store.log.count == 40)
        #expect(world.nodes[1].store.log.count == 80)
        #expect(world.status(0).peers.allSatisfy { !$0.isConnected })
        world.cut = []
        world.run(4_000)
        #expect(world.isConverged)
        #expect(world.nodes[0].store.log.count == 120)
        #expect(world.status(0).peers.allSatisfy { $0.isConnected && $0.missingHere == 0 })
    }

    @Test("A node that is reachable only through another gets everything")
    func relay() {
        let world = World(seed: 5)
        world.addNodes(3, peers: [1: [2], 2: [1, 3], 3: [2]])
        world.start()
        for round in 0..<30 {
            // For some time the others cannot hear the third.
            world.cut = (10..<20).contains(round) ? [203] : []
            world.save(0)
            world.save(2)
            world.run(300)
        }
        world.run(4_000)
        #expect(world.isConverged)
        #expect(world.nodes[2].store.log.count == 60)
        // Nothing counts as stable at one end: nobody there knows what the other has.
        #expect(world.oracle.faults.isEmpty, "\(world.oracle.faults)")
        #expect(world.status(0).stable.isEmpty)
        #expect(world.status(0).members.map(\.node) == [World.id(2), World.id(3)])
    }

    @Test("A node that was down catches up within milliseconds of its start")
    func restart() {
        let world = World(seed: 6, started: 3)
        world.save(2, count: 5)
        world.run(1_000)
        world.stop(2)
        world.save(0, count: 300)
        world.save(1, count: 300)
        world.run(10_000)
        world.restart(2)
        world.run(100)
        #expect(world.nodes[2].store.log.count == 605)
        world.save(2)
        world.run(100)
        #expect(world.isConverged)
    }

    @Test("A node loses its store and its former incarnation's saves come back from the peers")
    func formerIncarnation() {
        let world = World(seed: 7, started: 2)
        world.save(0, count: 3)
        world.run(1_000)
        world.lose(0)
        world.restart(0)
        world.run(1_000)
        #expect(world.nodes[0].store.log.count == 3)
        #expect(world.nodes[0].alarms.isEmpty)
    }

    @Test("A thousand transactions of 100 objects are pulled in few pages and applied in batches")
    func farBehind() {
        let world = World(seed: 8, started: 2)
        world.run(1_000)
        world.stop(1)
        for _ in 0..<1_000 { world.save(0, bytes: 10_000) }
        world.restart(1)
        world.run(200)
        #expect(world.isConverged)
        let gauges = world.status(1).gauges
        #expect(gauges.pullCount <= 5)
        #expect(world.nodes[1].batches.count < 20)
        #expect(world.sentBytes < 2 * 1_000 * 10_100)
    }

    @Test("A transaction longer than a page travels in pieces, even over a lossy network")
    func pieces() {
        let world = World(seed: 9)
        world.limits.pageBytes = 100_000
        world.limits.notificationBytes = 10_000
        world.addNodes(3)
        world.faults.exchangeLoss = 0.2
        world.start()
        world.run(2_000)
        world.save(0, bytes: 2_000_000)
        world.save(0)
        world.save(1, bytes: 1_000_000)
        world.run(240_000)
        #expect(world.isConverged)
        #expect(world.nodes[2].store.log.count == 3)
        #expect(world.status(2).gauges.piecesBytes == 0)
    }

    @Test("With bounds far too small nothing is lost, it only takes longer", arguments: 1...5)
    func smallBounds(seed: UInt64) {
        let world = World(seed: seed)
        world.limits.waitingCount = 10
        world.limits.backlogCount = 20
        world.limits.applyCount = 7
        world.limits.pageBytes = 3_000
        world.applyMilliseconds = 20
        world.addNodes(3)
        world.faults = .init(publishLoss: 0.5, exchangeLoss: 0.1, repeats: 0.2, delay: 1...100)
        world.start()
        for round in 0..<100 {
            world.save((round * 5 + Int(seed)) % 3, count: 1 + round % 5)
            world.run(10)
            #expect(world.status(0).gauges.waitingCount <= 10)
        }
        world.run(120_000)
        #expect(world.isConverged)
        #expect(world.nodes[0].store.log.count == 300)
        #expect(world.nodes.allSatisfy { $0.alarms.isEmpty && $0.quarantined.isEmpty })
    }

    /// Each bound at the least that is legal, alone and with the others, as the simulator has it.
    @Test("With bounds as small as is legal all comes through", arguments: 1...30)
    func leastBounds(seed: UInt64) {
        let world = World(seed: seed)
        var generator = SeededGenerator(seed: seed)
        func isDrawn() -> Bool { seed % 5 == 0 || Bool.random(using: &generator) }
        if isDrawn() { world.limits.pageBytes = 256 }
        if isDrawn() { world.limits.applyCount = 1 }
        if isDrawn() { world.limits.waitingCount = 2 }
        if isDrawn() { world.limits.backlogCount = 1 }
        if isDrawn() { world.limits.transactionsInFrame = 1 }
        if isDrawn() { world.limits.notificationBytes = 64 }
        if isDrawn() { world.limits.graceMilliseconds = 0 }
        if isDrawn() { world.limits.applyBytes = 1 }
        if isDrawn() { world.applyMilliseconds = 20 }
        if isDrawn() { world.syncMilliseconds = 500 }
        world.addNodes(2 + Int(seed % 3))
        world.faults = .init(publishLoss: 0.3, exchangeLoss: 0.1, repeats: 0.2, delay: 1...60)
        world.start()
        for round in 0..<40 {
            let index = (round * 5 + Int(seed)) % world.nodes.count
            world.save(index, count: 1 + round % 3, bytes: round % 7 == 0 ? 900 : 20)
            world.run(UInt64(round % 50))
        }
        world.faults = World.Faults()
        world.run(120_000)
        #expect(world.isConverged)
        #expect(world.nodes[0].store.log.count == 79)
        #expect(world.nodes.allSatisfy { $0.alarms.isEmpty && $0.quarantined.isEmpty })
        for index in world.nodes.indices {
            #expect(world.status(index).stable == world.nodes[0].store.vector)
            #expect(world.status(index).gauges.waitingCount == 0)
        }
    }

    @Test("The same seed gives the same run")
    func deterministic() {
        func run() -> [Dot] {
            let world = World(seed: 11)
            world.addNodes(3)
            world.faults = .init(publishLoss: 0.3, exchangeLoss: 0.1, repeats: 0.1, delay: 1...50)
            world.start()
            for round in 0..<60 {
                world.save(round % 3)
                world.run(37)
            }
            return world.nodes[2].store.log.map(\.dot)
        }
        #expect(run() == run())
    }
}
