import Coordinator
import Merge
import Testing

/// Inserts of unique keys that the store has.
@Suite("Inserts over what is there")
struct UpsertTests {
    private func node() throws -> EngineNode {
        try EngineNode(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Person", attributes: [.init("code", .string), .init("name", .string)],
                    relationships: [
                        .init("boss", to: "Person", inverse: "staff"),
                        .init("staff", to: "Person", inverse: "boss", isToMany: true),
                        .init("friends", to: "Person", inverse: "friends", isToMany: true),
                    ], uniquenessConstraints: [["code"]])
            ]))
    }

    @Test(
        "Inserts that refer and are linked to each other become one with what is there",
        arguments: [MergePolicy.overwrite, .mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump])
    func united(_ policy: MergePolicy) throws {
        let node = try node()
        let count = Int64(6)
        let stored = try (1...count).map {
            try node.insert("Person", ["code": .string("\($0)"), "name": .string("old")])
        }
        // Each has the next as its boss and its friend, the last has itself; the third is new.
        let operations = try (1...count).map { number in
            let next = RowID(-min(number + 1, count))
            return try node.insertion(
                "Person", -number,
                [
                    "code": .string(number == 3 ? "new" : "\(number)"), "name": .string("new"),
                    "boss": .reference(next),
                ], [.init(name: "friends", kind: .add, members: [next])])
        }
        let result = try node.save(SaveRequest(operations: operations, mergePolicy: policy))
        var rows = stored.map(\.row)
        rows[2] = result.insertedRows[2].row
        #expect(result.insertedRows.map(\.row) == rows)
        let isKept = policy.choice == .earliest
        for (place, row) in rows.enumerated() {
            let person = ManagedObjectID(entityName: "Person", row: row)
            let next = rows[min(place + 1, rows.count - 1)]
            let isOld = isKept && place != 2
            #expect(try node.value(person, "name") == .string(isOld ? "old" : "new"))
            #expect(try node.value(person, "boss") == (isOld ? .null : .reference(next)))
            var friends = Set([next])
            if place > 0 { friends.insert(rows[place - 1]) }
            #expect(try node.members(person, "friends") == friends.sorted())
        }
        #expect(try node.coordinator.verify().isOK)
    }

    @Test(
        "Objects that each take the next one's key, where the last is taken, all keep their own",
        .timeLimit(.minutes(1)), arguments: [3, 4_000])
    func chain(count: Int64) throws {
        let node = try node()
        let inserts = try (0...count).map {
            try node.insertion(
                "Person", -1 - $0, ["code": .string("\($0)"), "name": .string("old")])
        }
        let people = try node.save(SaveRequest(operations: inserts)).insertedRows.map {
            ManagedObjectID(entityName: $0.entityName, row: $0.row)
        }
        // The last, whose key its predecessor wants, stays as it is.
        let operations = try people.dropLast().enumerated().map { place, person in
            try node.change(
                person, ["code": .string("\(place + 1)"), "name": .string("new \(place)")])
        }
        let result = try node.save(
            SaveRequest(operations: operations, mergePolicy: .mergeByPropertyStoreTrump))
        #expect(result.rows.count == Int(count))
        for place in [0, 1, Int(count) - 1, Int(count)] {
            let name = place == Int(count) ? "old" : "new \(place)"
            #expect(try node.value(people[place], "code") == .string("\(place)"))
            #expect(try node.value(people[place], "name") == .string(name))
        }
        // Where the last makes way as well, all move on.
        let last = try node.change(people[Int(count)], ["code": .string("\(count + 1)")])
        try node.save(
            SaveRequest(operations: operations + [last], mergePolicy: .mergeByPropertyStoreTrump))
        for place in [0, 1, Int(count)] {
            #expect(try node.value(people[place], "code") == .string("\(place + 1)"))
        }
        #expect(try node.coordinator.verify().isOK)
    }
}
