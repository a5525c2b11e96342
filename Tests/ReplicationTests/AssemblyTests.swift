import Merge
import Testing

@testable import Replication

@Suite("A long transaction that is put together of pieces")
struct AssemblyTests {
    private let limits = Limits()
    private static let first = dot(Reporter.second, 1)
    private static let other = dot(Reporter.third, 1)

    private func piece(_ dot: Dot = first, at offset: UInt64, _ bytes: [UInt8]) -> Piece {
        Piece(id: 1, dot: dot, offset: offset, total: 6, bytes: bytes)
    }

    private func add(
        _ piece: Piece, to assembly: inout Assembly, isHere: Bool = false, now: UInt64 = 0
    ) -> Assembly.Outcome {
        assembly.add(piece, isHere: isHere, now: now, limits: limits)
    }

    @Test("Pieces in order come to the whole, which is not kept")
    func inOrder() {
        var assembly = Assembly()
        #expect(add(piece(at: 0, [0, 1]), to: &assembly) == .appended)
        let vector = VersionVector([.init(actor: Reporter.second, sequence: 1)])
        #expect(assembly.resume(from: vector) == .init(dot: Self.first, offset: 2))
        #expect(assembly.resume(from: VersionVector()) == nil)
        #expect(add(piece(at: 2, [2, 3, 4, 5]), to: &assembly) == .whole([0, 1, 2, 3, 4, 5]))
        #expect(assembly.dot == nil && assembly.count == 0)
    }

    @Test("What is there is left out of a piece, and a gap is of no use")
    func overlaps() {
        var assembly = Assembly()
        #expect(add(piece(at: 0, [0, 1, 2]), to: &assembly) == .appended)
        #expect(add(piece(at: 1, [1, 2]), to: &assembly) == .useless)
        #expect(add(piece(at: 4, [4, 5]), to: &assembly) == .useless)
        #expect(assembly.count == 3)
        #expect(add(piece(at: 1, [1, 2, 3]), to: &assembly) == .appended)
        #expect(assembly.count == 4)
    }

    @Test("Another one waits until the first has come whole or was not used for long")
    func another() {
        for (isHere, now) in [(true, 1), (false, limits.outgoingMilliseconds)] {
            var assembly = Assembly()
            #expect(add(piece(at: 0, [0, 1]), to: &assembly) == .appended)
            #expect(add(piece(Self.other, at: 0, [7]), to: &assembly, now: 1) == .busy)
            #expect(assembly.dot == Self.first)
            let outcome = add(
                piece(Self.other, at: 0, [7]), to: &assembly, isHere: isHere, now: now)
            #expect(outcome == .appended && assembly.dot == Self.other)
        }
    }

    @Test("One that comes with another length begins again")
    func otherLength() {
        var assembly = Assembly()
        #expect(add(piece(at: 0, [0, 1]), to: &assembly) == .appended)
        let longer = Piece(id: 1, dot: Self.first, offset: 2, total: 7, bytes: [2])
        #expect(add(longer, to: &assembly) == .useless && assembly.count == 0)
    }
}
