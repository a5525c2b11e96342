import Coordinator
import Merge
import Testing

/// A save is refused where its transaction would be one that no node reads.
@Suite("Saves that nobody could read")
struct ReadableSaveTests {
    @Test("A property that is assigned twice", arguments: [true, false])
    func assignedTwice(isInsert: Bool) throws {
        let node = try EngineNode(TestStore.standardModel())
        let item = try node.insert("Item", ["p": .string("before")])
        var operation =
            isInsert ? try node.insertion("Item") : try node.change(item, ["p": .string("a")])
        operation.values = try node.values("Item", ["p": .string("a")]) + operation.values
        operation.values += try node.values("Item", ["p": .string("b")])
        #expect(try node.code { try node.save(operation) } == .malformed)
        // What is saved before and after can be read by everybody.
        let other = try EngineNode(TestStore.standardModel(), node: 2)
        try exchange(node, other)
        #expect(try other.row(item) != nil)
        try other.insert("Item")
        try exchange(node, other)
    }

    @Test("More lists of properties than a transaction may have")
    func manyShapes() throws {
        let names = (0..<17).map { "a\($0)" }
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Sparse", attributes: names.map { AttributeDescription($0, .integer64) })
        ])
        let node = try EngineNode(model)
        let entity = try node.entity("Sparse")
        func operations(_ count: Int) -> [SaveOperation] {
            (0..<count).map { number in
                SaveOperation(
                    kind: .insert, entity: entity, row: RowID(Int64(-1 - number)),
                    values: names.indices.filter { number >> $0 & 1 == 1 }.map {
                        ($0, .integer(1))
                    })
            }
        }
        let most = Transaction.Bounds.shapes
        let error = #expect(throws: CoordinatorError.self) {
            try node.save(SaveRequest(operations: operations(most + 1), isBulk: true))
        }
        #expect(error?.code == .limitExceeded)
        let request = FetchRequest("Sparse")
        #expect(try node.coordinator.read { try $0.count(request) } == 0)
        try node.save(SaveRequest(operations: operations(most), isBulk: true))
        let other = try EngineNode(model, node: 2)
        try exchange(node, other)
        #expect(try other.coordinator.read { try $0.count(request) } == most)
    }
}
