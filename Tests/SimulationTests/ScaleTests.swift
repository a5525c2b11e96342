import Testing

@testable import Simulation

@Suite("The cost of saves and rest by the number of nodes")
struct ScaleTests {
    @Test("A save is one frame to each other node, and nobody asks for it", arguments: [3, 5])
    func framesOfSaves(nodes: Int) throws {
        let saves = 20
        let (figures, processor) = try ScaleCluster.measure(nodes: nodes, saves: saves, seed: 1)
        let frames = UInt64(saves * (nodes - 1))
        #expect(figures.saver.frames == frames)
        #expect(figures.appliers == figures.saver)
        #expect(figures.others.frames == 0)
        #expect(processor.saver > 0 && processor.appliers > 0 && processor.rest > 0)
    }

    @Test("At rest a node hears each other node once a second", arguments: [3, 5])
    func framesOfRest(nodes: Int) throws {
        let figures = try ScaleCluster.measure(nodes: nodes, saves: 1, seed: 2).figures
        let expected = Double(nodes * (nodes - 1)) * Double(figures.restMilliseconds) / 1_000
        // Each interval between heads is drawn between 0.8 and 1.2 s.
        #expect(Double(figures.rest.frames) > expected * 0.85)
        #expect(Double(figures.rest.frames) < expected * 1.15)
    }

    @Test("A save names one transaction of each node that has saved, and heads grow likewise")
    func bytes() throws {
        let (small, large) = (
            try ScaleCluster.measure(nodes: 3, saves: 20, seed: 3).figures,
            try ScaleCluster.measure(nodes: 8, saves: 20, seed: 3).figures
        )
        func bytes(_ traffic: ScaleFigures.Traffic) -> Double {
            Double(traffic.bytes) / Double(traffic.frames)
        }
        let save = (bytes(large.saver) - bytes(small.saver)) / 5
        #expect((8...16).contains(save))
        let heads = (bytes(large.rest) - bytes(small.rest)) / 5
        #expect((25...45).contains(heads))
    }

    @Test("One seed gives the same frames and bytes, another does not")
    func determinism() throws {
        let first = try ScaleCluster.measure(nodes: 3, saves: 10, seed: 7).figures
        #expect(try ScaleCluster.measure(nodes: 3, saves: 10, seed: 7).figures == first)
        #expect(try ScaleCluster.measure(nodes: 3, saves: 10, seed: 8).figures != first)
    }
}
