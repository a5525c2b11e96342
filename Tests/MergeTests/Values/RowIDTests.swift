import Merge
import Testing

@Suite("RowID")
struct RowIDTests {
    private let minute: UInt64 = 60_000

    @Test("From the top: 15 bits of node, 25 of block, 23 of counter")
    func layout() {
        #expect(RowID(node: node(1), block: 0, counter: 0).rawValue == 1 << 48)
        #expect(RowID(node: node(1), block: 1, counter: 0).rawValue == 1 << 48 | 1 << 23)
        #expect(RowID(node: node(1), block: 0, counter: 5).rawValue == 1 << 48 | 5)
        let last = RowID(node: node(32767), block: 0x1FF_FFFF, counter: 0x7F_FFFF)
        #expect(last.rawValue == .max)
    }

    @Test("A block starts at the minute since 2024 began, at 0 before that")
    func blockFollowsTheMinute() {
        let epoch = RowIDAllocator.epochMilliseconds
        func block(_ wall: UInt64, last: UInt32 = 0) -> UInt32 {
            RowIDAllocator(node: node(1), lastBlock: last, wallMilliseconds: wall).block
        }
        #expect(block(epoch + 90 * minute) == 90)
        #expect(block(epoch + 91 * minute - 1) == 90)
        #expect(block(0) == 1)
        #expect(block(epoch + 90 * minute, last: 50) == 90)
    }

    @Test("A block is never below the last one + 1, however the clock stands")
    func blockNeverFallsBack() {
        for wall in [0, RowIDAllocator.epochMilliseconds + 90 * minute] {
            for last: UInt32 in [89, 90, 5000] {
                let allocator = RowIDAllocator(
                    node: node(1), lastBlock: last, wallMilliseconds: wall)
                #expect(allocator.block >= last + 1)
            }
        }
    }

    @Test("Identities of one allocator rise and carry its node and block")
    func identitiesRise() {
        var allocator = RowIDAllocator(
            node: node(3), lastBlock: 0,
            wallMilliseconds: RowIDAllocator.epochMilliseconds + 7 * minute)
        let first = allocator.next()
        let second = allocator.next()
        #expect(first == RowID(node: node(3), block: 7, counter: 1))
        #expect(second == RowID(node: node(3), block: 7, counter: 2))
    }

    @Test("A block that a former life has used is left out, whatever is left of it")
    func avoided() throws {
        let node = try #require(NodeID(7))
        let other = try #require(NodeID(8))
        var allocator = RowIDAllocator(node: node, lastBlock: 99, wallMilliseconds: 0)
        allocator.avoid(RowID(node: node, block: 99, counter: 5))
        allocator.avoid(RowID(node: other, block: 500, counter: 5))
        #expect(allocator.next() == RowID(node: node, block: 100, counter: 1))
        allocator.avoid(RowID(node: node, block: 100, counter: 3))
        #expect(allocator.next() == RowID(node: node, block: 101, counter: 1))
        allocator.avoid(RowID(node: node, block: 300, counter: 0x7F_FFFF))
        #expect(allocator.next() == RowID(node: node, block: 301, counter: 1))
        #expect(allocator.block == 301)
    }

    @Test("Every block of a store begins at the store's own number")
    func skipping() throws {
        let node = try #require(NodeID(7))
        var allocator = RowIDAllocator(
            node: node, lastBlock: 99, wallMilliseconds: 0, skipping: 0xFFF0_0005)
        #expect(allocator.next() == RowID(node: node, block: 100, counter: 0x30_0006))
        allocator.avoid(RowID(node: node, block: 100, counter: 1))
        #expect(allocator.next() == RowID(node: node, block: 101, counter: 0x30_0006))
        for _ in 0x30_0007...0x7F_FFFF { _ = allocator.next() }
        #expect(allocator.next() == RowID(node: node, block: 102, counter: 0x30_0006))
    }

    @Test("Two openings in one minute never give the same identity")
    func reopening() {
        let wall = RowIDAllocator.epochMilliseconds + 7 * minute
        var before = RowIDAllocator(node: node(3), lastBlock: 0, wallMilliseconds: wall)
        var after = RowIDAllocator(node: node(3), lastBlock: before.block, wallMilliseconds: wall)
        let earlier = (0..<100).map { _ in before.next() }
        let later = (0..<100).map { _ in after.next() }
        #expect(Set(earlier).isDisjoint(with: later))
        #expect(before.block < after.block)
    }
}
