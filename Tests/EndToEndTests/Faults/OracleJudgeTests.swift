import Coordinator
import Merge
import Testing

extension EndToEnd {
    /// No node takes part: what nodes could have answered is written down here, first as it should
    /// be and then with one thing wrong.
    @Suite("The judge of readings")
    struct OracleJudgeTests {
        /// Node 1 inserts two rows, one the other's parent and friend, and changes the first; node
        /// 2, which has seen the inserts alone, changes it as well.
        private let world: ForgedWorld

        init() throws { world = try ForgedWorld() }
    }
}

extension EndToEnd.OracleJudgeTests {
    /// One thing that is wrong with a reading.
    enum Forgery: CaseIterable {
        case value, null, toOne, member, memberTwice, noMember, property, noProperty
        case version, dot, flag, entity, gone, stranger, twice, older
    }

    @Test("it has nothing to say against what is true")
    func truth() {
        var judge = world.judge
        #expect(judge.complaints(about: world.reading(world.objects), isFinal: true) == [])
        #expect(judge.complaints(about: world.reading(world.objects.reversed())) == [])
        #expect(judge.complaints(about: world.reading(world.before, at: world.early)) == [])
        #expect(judge.complaints(about: world.reading([], at: VersionVector())) == [])
        #expect(judge.complaints(about: world.counted(2), isFinal: true) == [])
        #expect(judge.complaints(about: world.counted(0, at: VersionVector())) == [])
        #expect(judge.complaints(about: world.pin(world.objects, world.objects)) == [])
        let lists = [1, 2].map { (node: $0, conflicts: [world.conflict]) }
        #expect(judge.complaints(aboutUnresolved: lists) == [])
    }

    @Test("it finds whatever is wrong with an object", arguments: Forgery.allCases)
    func forgeries(_ forgery: Forgery) {
        var judge = world.judge
        let complaints = judge.complaints(about: world.reading(world.objects(with: forgery)))
        #expect(complaints.count == 1 || forgery == .older, "\(complaints)")
        #expect(!complaints.isEmpty)
        // Nor has it forgotten by that what is true.
        #expect(judge.complaints(about: world.reading(world.objects)) == [])
    }

    @Test("it finds a count that is wrong, and a vector that no log bears out or that lacks saves")
    func countsAndVectors() {
        var judge = world.judge
        #expect(judge.complaints(about: world.counted(3)).count == 1)
        #expect(judge.complaints(about: world.counted(1)).count == 1)
        var unheard = world.all
        unheard.advance(world.second, to: 2)
        #expect(judge.complaints(about: world.reading(world.objects, at: unheard)).count == 1)
        let early = world.reading(world.before, at: world.early)
        #expect(judge.complaints(about: early, isFinal: true).count == 1)
        // Of an actor only what has no gap is known.
        let gap = world.transactions.filter { $0.dot != Dot(actor: world.first, sequence: 1) }
        var other = OracleJudge(world.model, gap)
        #expect(other.complaints(about: world.reading(world.objects)).count == 1)
    }

    @Test("it finds a pin that moved, though what it shows was true once")
    func pins() {
        var judge = world.judge
        let moved = world.pin(world.before, world.objects, world.early)
        #expect(judge.complaints(about: moved).contains { $0.contains("changed") })
        // The same, told with the vector that it has moved to.
        let told = PinnedReading(
            vector: world.early, first: world.reading(world.before, at: world.early),
            second: world.reading(world.objects))
        #expect(judge.complaints(about: told).contains { $0.contains("pinned was") })
        let reordered = world.pin(world.objects, world.objects.reversed())
        #expect(judge.complaints(about: reordered).count == 1)
        // Twice the same, and wrong both times.
        let wrong = world.objects(with: .value)
        #expect(judge.complaints(about: world.pin(wrong, wrong)).count == 1)
    }

    @Test("it finds a conflict that is not listed, one that is none, and one that lacks a side")
    func conflicts() {
        func count(_ conflicts: [JSONObject]) -> Int {
            world.judge.complaints(aboutUnresolved: [(1, [world.conflict]), (2, conflicts)]).count
        }
        var other = world.conflict
        other["id"] = "Errors.p2.a"
        var partial = world.conflict
        partial["sides"] = .array([["dot": "\(world.first)-2"]])
        #expect(count([]) == 1)
        #expect(count([world.conflict, world.conflict]) == 1)
        #expect(count([world.conflict, other]) == 1)
        #expect(count([partial]) == 1)
    }

    @Test("of a long series some are kept, evenly spread")
    func samples() {
        for length in [0, 1, 4, 5, 8, 9, 100] {
            var sample = EvenSample<Int>(capacity: 4)
            for number in 0..<length { sample.append(number) }
            let distances = Set(zip(sample.elements.dropFirst(), sample.elements).map { $0 - $1 })
            #expect(sample.count == length && sample.elements.count <= 4)
            #expect(sample.elements.first == (length > 0 ? 0 : nil))
            #expect(distances.count <= 1)
            #expect(length < 3 || sample.elements.count >= 2)
        }
    }
}
