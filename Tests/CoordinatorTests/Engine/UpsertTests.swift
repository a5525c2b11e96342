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
                    "Person",
                    attributes: [
                        AttributeDescription("code", .string),
                        AttributeDescription("name", .string),
                    ],
                    relationships: [
                        RelationshipDescription("boss", to: "Person", inverse: "staff"),
                        RelationshipDescription(
                            "staff", to: "Person", inverse: "boss", isToMany: true),
                        RelationshipDescription(
                            "friends", to: "Person", inverse: "friends", isToMany: true),
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
        let result = try node.coordinator.save(
            SaveRequest(operations: operations, mergePolicy: policy))
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
}
