import Merge
import Testing

/// Grouping against a specification that is as naive as the design's sentence.
@Suite struct UniqueGroupsTests {
    /// "A row that shares a key with a row already visible is eclipsed by the earliest such row,
    /// else it is visible", word by word.
    private func specification(_ rows: [GroupCandidate]) -> [RowID: RowID] {
        var left = rows
        var visible: [GroupCandidate] = []
        var survivors: [RowID: RowID] = [:]
        while let next = left.min(by: {
            ($0.insertion, $0.row.rawValue) < ($1.insertion, $1.row.rawValue)
        }) {
            left.removeAll { $0 == next }
            let rivals = visible.filter { other in next.keys.contains { other.keys.contains($0) } }
            if let first = rivals.first {
                survivors[next.row] = first.row
            } else {
                visible.append(next)
            }
        }
        return survivors
    }

    private func row(_ number: Int64, at time: UInt64, _ keys: [Int?]) throws -> GroupCandidate {
        GroupCandidate(
            row: RowID(number), insertion: try stamp(time),
            keys: keys.enumerated().compactMap { place, key in
                UniqueKey(
                    constraint: "Row:k\(place)",
                    values: [key.map { .integer(Int64($0)) } ?? .null])
            })
    }

    /// A time is a save: rows of equal times were inserted by one.
    private func stamp(_ time: UInt64) throws -> Stamp {
        let node = try #require(NodeID(1))
        return Stamp(
            timestamp: try #require(HybridTimestamp(milliseconds: time, counter: 0)),
            dot: Dot(actor: ActorID(node: node, incarnation: 1), sequence: time))
    }

    private static func permutations<Element>(_ list: [Element]) -> [[Element]] {
        guard list.count > 1 else { return [list] }
        return list.indices.flatMap { index -> [[Element]] in
            var rest = list
            let first = rest.remove(at: index)
            return permutations(rest).map { [first] + $0 }
        }
    }

    /// Every assignment of two keys, each of three values or none, to as many rows.
    private func everyTable(of count: Int) throws -> [[GroupCandidate]] {
        var tables: [[GroupCandidate]] = [[]]
        for number in 1...count {
            var next: [[GroupCandidate]] = []
            for table in tables {
                for first in [nil, 1, 2] as [Int?] {
                    for second in [nil, 1, 2] as [Int?] {
                        // Two rows of each save, so that ties by identity occur.
                        let time = UInt64((number + 1) / 2)
                        next.append(
                            table + [try row(Int64(10 - number), at: time, [first, second])])
                    }
                }
            }
            tables = next
        }
        return tables
    }

    @Test("Four rows under two constraints are grouped as the design says, in every case")
    func exhaustive() throws {
        for table in try everyTable(of: 4) {
            let groups = UniqueGroups.eclipses(table)
            #expect(groups == specification(table))
            let keys = table.filter { groups[$0.row] == nil }.flatMap(\.keys)
            #expect(Set(keys).count == keys.count, "two visible rows share a key")
            for (row, survivor) in groups {
                #expect(groups[survivor] == nil, "\(row) is eclipsed by what is eclipsed")
            }
        }
    }

    @Test("The order in which rows are given does not matter")
    func order() throws {
        for table in try everyTable(of: 3) {
            let groups = UniqueGroups.eclipses(table)
            for other in Self.permutations(table) {
                #expect(UniqueGroups.eclipses(other) == groups)
            }
        }
    }

    @Test("What one row's change changes is connected with it by its old or its new keys")
    func component() throws {
        for table in try everyTable(of: 3) {
            for index in table.indices {
                let old = table[index]
                for key in [nil, 1, 2] as [Int?] {
                    let new = GroupCandidate(
                        row: old.row, insertion: old.insertion,
                        keys: try row(1, at: 1, [key, nil]).keys)
                    var after = table
                    after[index] = new
                    let before = UniqueGroups.eclipses(table)
                    let found = UniqueGroups.component(of: old.keys + new.keys) { key in
                        (table + [new]).filter { $0.keys.contains(key) }.map { ($0.row, $0.keys) }
                    }
                    let connected = Set(found + [old.row])
                    let inside = after.filter { connected.contains($0.row) }
                    var expected = before.filter { !connected.contains($0.key) }
                    expected.merge(UniqueGroups.eclipses(inside)) { $1 }
                    #expect(UniqueGroups.eclipses(after) == expected)
                }
            }
        }
    }

    @Test("P11: a bad insert fuses no strangers")
    func strangers() throws {
        let first = try row(1, at: 1, [1, 1])
        let second = try row(2, at: 2, [2, 2])
        let bad = try row(3, at: 3, [1, 2])
        #expect(UniqueGroups.eclipses([first, second, bad]) == [RowID(3): RowID(1)])
    }

    @Test("P8: of one save's rows the lowest identity is taken first")
    func ties() throws {
        let rows = [try row(7, at: 1, [3]), try row(5, at: 1, [3])]
        #expect(UniqueGroups.eclipses(rows) == [RowID(7): RowID(5)])
    }

    @Test("A null is no key, and the two zeros are one")
    func keys() {
        #expect(UniqueKey(constraint: "a", values: [.integer(1), .null]) == nil)
        #expect(
            UniqueKey(constraint: "a", values: [.double(-0.0)])
                == UniqueKey(constraint: "a", values: [.double(0.0)]))
        #expect(
            UniqueKey(constraint: "a", values: [.integer(1)])
                != UniqueKey(constraint: "b", values: [.integer(1)]))
    }
}
