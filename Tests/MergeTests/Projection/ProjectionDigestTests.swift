import Merge
import TestSupport
import Testing

@Suite("ProjectionDigest")
struct ProjectionDigestTests {
    private let names = DigestNames(entity: "Person", properties: ["age", "name"])

    private func row(_ number: Int64, age: Int64, by dot: Dot) -> (UInt64, UInt64) {
        var hasher = RowHasher(
            entity: names.entity, row: RowID(number), insertion: MergeTests.dot(1, 1))
        hasher.combine(property: names.properties[0], value: .integer(age), dot: dot)
        return hasher.finalize()
    }

    @Test("Rows may be added and taken out in any order")
    func orderDoesNotMatter() {
        var random = SeededGenerator(seed: 51)
        let rows = (1...50).map { row($0, age: $0 * 3, by: dot(1, 1)) }
        var straight = ProjectionDigest()
        for hash in rows { straight.add(hash) }
        for _ in 0..<20 {
            var shuffled = ProjectionDigest()
            let extra = row(99, age: 1, by: dot(2, 1))
            shuffled.subtract(extra)
            for hash in rows.shuffled(using: &random) { shuffled.add(hash) }
            #expect(shuffled != straight)
            shuffled.add(extra)
            #expect(shuffled == straight)
        }
        for hash in rows.shuffled(using: &random) { straight.subtract(hash) }
        #expect(straight == ProjectionDigest())
    }

    @Test("A row's hash tells its identity, value and winning dot apart")
    func rowHashes() {
        let hashes = [
            row(1, age: 1, by: dot(1, 1)), row(2, age: 1, by: dot(1, 1)),
            row(1, age: 2, by: dot(1, 1)), row(1, age: 1, by: dot(2, 1)),
        ]
        #expect(Set(hashes.map { "\($0)" }).count == hashes.count)
    }

    @Test("A property that is null since the insertion hashes as if it were not there")
    func addedColumns() {
        func hash(_ body: (inout RowHasher) -> Void) -> String {
            var hasher = RowHasher(entity: names.entity, row: RowID(1), insertion: dot(1, 1))
            body(&hasher)
            return "\(hasher.finalize())"
        }
        let none = hash { _ in }
        let inserted = hash {
            $0.combine(property: names.properties[0], value: .null, dot: dot(1, 1))
        }
        let nullified = hash {
            $0.combine(property: names.properties[0], value: .null, dot: dot(1, 2))
        }
        #expect(inserted == none)
        #expect(nullified != none)
    }

    @Test("The sides of an unresolved conflict count, in any order")
    func unresolvedSides() {
        func hash(_ dots: [Dot]) -> String {
            var hasher = RowHasher(entity: names.entity, row: RowID(1), insertion: dot(1, 1))
            hasher.combine(unresolved: names.properties[0], dots: dots)
            return "\(hasher.finalize())"
        }
        #expect(hash([dot(1, 2), dot(2, 1)]) == hash([dot(2, 1), dot(1, 2)]))
        #expect(hash([dot(1, 2), dot(2, 1)]) != hash([dot(1, 2), dot(2, 2)]))
    }

    @Test("A digest prints as 32 digits and is read back as the same")
    func printing() {
        let digest = ProjectionDigest(high: 0xAB, low: .max)
        #expect("\(digest)" == "00000000000000abffffffffffffffff")
        #expect(ProjectionDigest("\(digest)") == digest)
        #expect(ProjectionDigest("\(ProjectionDigest())") == ProjectionDigest())
    }

    @Test(
        "What is no printed digest is refused",
        arguments: [
            "", "0", "00000000000000abfffffffffffffff", "00000000000000abfffffffffffffffff",
            "00000000000000ABffffffffffffffff", "+0000000000000abffffffffffffffff",
            "00000000000000ab+fffffffffffffff", "0000000000000000000000000000000g",
        ])
    func refusals(_ text: String) { #expect(ProjectionDigest(text) == nil) }
}
