import Merge
import TestSupport
import Testing

/// Names that people and other nodes send back: exactly what was printed is read, nothing else.
@Suite("Names")
struct NameTests {
    @Test("A node is 1...32767")
    func nodeBounds() {
        #expect(NodeID(0) == nil)
        #expect(NodeID(-1) == nil)
        #expect(NodeID(1)?.rawValue == 1)
        #expect(NodeID(32767)?.rawValue == 32767)
        #expect(NodeID(32768) == nil)
        #expect(NodeID(UInt64.max) == nil)
    }

    @Test("An incarnation holds the start time above chance")
    func incarnationLayout() {
        let made = ActorID(node: node(2), startedAtSeconds: 0x1234_5678, random: 0x9ABC_DEF0)
        #expect(made.incarnation == 0x1234_5678_9ABC_DEF0)
        #expect("\(made)" == "2.123456789abcdef0")
    }

    @Test("Every name that is printed is read back as the same")
    func roundTrips() {
        var random = SeededGenerator(seed: 31)
        for _ in 0..<500 {
            let name = Dot(
                actor: ActorID(
                    node: node(1 + random.below(32767)),
                    incarnation: random.next() >> UInt64(random.below(64))),
                sequence: 1 + random.next() >> UInt64(1 + random.below(63)))
            #expect(ActorID("\(name.actor)") == name.actor)
            #expect(Dot("\(name)") == name)
            let given = Dot(actor: name.actor, sequence: 1 + name.sequence >> 24)
            let version = RowVersion(dots: [given, dot(1, 1), dot(2, 7)])
            #expect(RowVersion("\(version)") == version)
            let row = RowID(Int64(random.next() >> 1) | 1)
            #expect(RowID("\(row)") == row)
        }
    }

    @Test("A survivor's version names the rows it eclipses, each with its dots")
    func survivorVersion() throws {
        let name = try #require(Dot("2.6f3a91c04be1d277-117"))
        let other = try #require(Dot("1.5-3"))
        let version = RowVersion(
            dots: [name],
            eclipsed: [
                .init(row: RowID(9), dots: [name, other]), .init(row: RowID(7), dots: [name]),
            ])
        #expect("\(version)" == "\(name)+1.7-0+\(name)+1.9-0+\(other)+\(name)")
        #expect(RowVersion("\(version)") == version)
        #expect(version != RowVersion(dots: [name]))
        for text in [
            "\(name)~", "\(name)~p7~\(name)", "\(name)+1.7-0", "1.7-0+\(name)",
            "\(name)+1.07-0+\(name)",
            "\(name)+1.9-0+\(name)+1.7-0+\(name)",
        ] {
            #expect(RowVersion(text) == nil)
        }
    }

    @Test(
        "What is no printed actor is refused",
        arguments: [
            "", ".", "1", "1.", ".1", "0.a", "32768.a", "1.a.b", "+1.a", "01.a", "1.+a", "1.A",
            "1.0a", "1.10000000000000000", "-1.a", " 1.a", "1.a ", "1.g", "١.a", "1.١",
        ])
    func actorRefusals(_ text: String) { #expect(ActorID(text) == nil) }

    @Test(
        "What is no printed dot is refused",
        arguments: [
            "", "-", "1.a", "1.a-", "1.a-0", "1.a-+1", "1.a-01", "1.a-1-1", "-1", "1-1",
            "1.a--1", "1.a-18446744073709551616", "1.a-1 ", "1.a-١",
        ])
    func dotRefusals(_ text: String) { #expect(Dot(text) == nil) }

    @Test("A version is a set: its dots print sorted and once")
    func versionIsASet() {
        let version = RowVersion(dots: [dot(2, 1), dot(1, 3), dot(2, 1)])
        #expect(version.dots == [dot(1, 3), dot(2, 1)])
        #expect("\(version)" == "1.a0-3+2.a0-1")
        #expect(version == RowVersion(dots: [dot(1, 3), dot(2, 1)]))
    }

    @Test(
        "What is no printed version is refused",
        arguments: [
            "", "+", "1.a-1+", "+1.a-1", "1.a-1++2.a-1", "1.a-1,2.a-1", "2.a-1+1.a-1",
            "1.a-1+1.a-1", "1.a-1099511627776", "1.a-18446744073709551615",
            "1.a-1+1.7-0+2.a-1099511627776",
        ])
    func versionRefusals(_ text: String) { #expect(RowVersion(text) == nil) }

    @Test("A version of more dots than any row has is refused before it is built")
    func versionBound() {
        let many = (1...2000).map { "1.a-\($0)" }.joined(separator: "+")
        #expect(RowVersion(many) == nil)
    }

    @Test(
        "What is no printed row is refused",
        arguments: [
            "", "p", "p0", "p-1", "p+1", "p01", "1", "P1", "p1 ", "p9223372036854775808", "p١",
        ])
    func rowRefusals(_ text: String) { #expect(RowID(text) == nil) }

    @Test(
        "A conflict's name is read back as the same",
        arguments: [
            "Person.p7.name", "Person.p7.object", "Person.p7.boss.target",
            "Person.p7.friends.p8", "Person.p7.unique.name", "Person.p7.name@12",
            "Person.p9223372036854775807.object@18446744073709551615",
        ])
    func conflictRoundTrips(_ text: String) throws {
        let conflict = try #require(ConflictID(text))
        #expect(conflict.description == text)
        #expect(conflict.entity == "Person")
    }

    @Test("A conflict's parts are what its name says")
    func conflictParts() throws {
        let conflict = try #require(ConflictID("Person.p7.boss.target@3"))
        #expect(conflict.row == RowID(7))
        #expect(conflict.subject == "boss.target")
        #expect(conflict.closedAt == 3)
        #expect(try #require(ConflictID("Person.p7.boss")).closedAt == nil)
    }

    @Test(
        "What is no conflict's name is refused",
        arguments: [
            "", "Person", "Person.p7", "Person.p7.", ".p7.name", "Person.7.name",
            "Person.p0.name", "Person.p07.name", "Person.p7.name@", "Person.p7.name@x",
            "Person.p7.name@1@2", "Person.p7.name@-1", "Person.p7.name@+1", "Person.p7.name@01",
            "@1",
        ])
    func conflictRefusals(_ text: String) { #expect(ConflictID(text) == nil) }
}
