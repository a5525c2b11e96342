import Coordinator
import Merge
import TestSupport
import Testing

/// Nodes that save at random and hear of each other in random, causally valid order.
struct RandomCluster {
    let nodes: [EngineNode]
    private var random: SeededGenerator
    /// Objects as a client fetched them some time ago, to save against.
    private var fetched: [[RowSnapshot]]
    private var counter = 0

    static let entities = [
        "Note", "Folder", "Tag", "Person", "Passport", "Sheet", "Animal", "Dog", "Cat",
    ]

    init(seed: UInt64, _ model: ManagedObjectModel) throws {
        random = SeededGenerator(seed: seed)
        let count = Int.random(in: 2...3, using: &random)
        nodes = try (1...count).map { try EngineNode(model, node: $0) }
        fetched = Array(repeating: [], count: count)
    }

    mutating func run(steps: Int) throws {
        for _ in 0..<steps {
            let index = Int.random(in: 0..<nodes.count, using: &random)
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<11: try save(at: index)
            case 11..<13: try decide(at: index)
            case 13: try remember(at: index)
            default: try deliver(to: index, most: Int.random(in: 1...6, using: &random))
            }
        }
    }

    /// Delivers everything to everybody.
    mutating func settle() throws {
        for index in nodes.indices { try deliver(to: index, most: .max) }
        for index in nodes.indices { try deliver(to: index, most: .max) }
    }

    // MARK: Delivering

    /// Hands a node transactions that are ready for it, one chosen at random after the other, in
    /// batches of random size.
    private mutating func deliver(to index: Int, most: Int) throws {
        let node = nodes[index]
        var vector = try node.vector
        var waiting: [EncodedTransaction] = []
        for other in nodes where other !== node {
            waiting += other.transactions.filter { $0.dot.actor.node == other.node }
        }
        var batch: [EncodedTransaction] = []
        var left = most
        while left > 0 {
            let ready = waiting.filter {
                vector[$0.dot.actor] == $0.dot.sequence - 1 && vector.covers($0.transaction.seen)
            }
            guard let next = ready.randomElement(using: &random) else { break }
            batch.append(try EncodedTransaction(decoding: next.bytes))
            vector.advance(to: next.dot)
            left -= 1
            if Int.random(in: 0..<3, using: &random) == 0 { try apply(&batch, to: node) }
        }
        try apply(&batch, to: node)
    }

    private func apply(_ batch: inout [EncodedTransaction], to node: EngineNode) throws {
        if batch.isEmpty { return }
        let result = try node.coordinator.apply(batch)
        #expect(result.rejected.isEmpty)
        batch = []
    }

    // MARK: Saving

    private static let refusals: [CoordinatorError.Code] = [
        .mergeConflict, .unresolvedConflict, .deleteDenied, .objectNotFound, .validationFailed,
        .malformed, .conflictNotFound, .cannotBeUndone, .sidesChanged, .sideAmbiguous,
        .alreadyResolved,
    ]

    private func attempt(_ body: () throws -> Void) throws {
        do { try body() } catch let error as CoordinatorError
            where Self.refusals.contains(error.code)
        {
            // A save may be refused; then it must not have left a trace, which the end shows.
        }
    }

    private mutating func save(at index: Int) throws {
        let node = nodes[index]
        var operations: [SaveOperation] = []
        for place in 0..<Int.random(in: 1...3, using: &random) {
            if let operation = try operation(node, index, Int64(-1 - place)) {
                operations.append(operation)
            }
        }
        let policy = MergePolicy.allCases.randomElement(using: &random) ?? .error
        let request = SaveRequest(operations: operations, mergePolicy: policy)
        try attempt { try node.save(request) }
    }

    private mutating func operation(
        _ node: EngineNode, _ index: Int, _ temporary: Int64
    ) throws -> SaveOperation? {
        let choice = Int.random(in: 0..<10, using: &random)
        let name = Self.entities.randomElement(using: &random) ?? "Note"
        if choice < 3 {
            let entity = try node.entity(name)
            return SaveOperation(
                kind: .insert, entity: entity, row: RowID(temporary),
                values: try values(entity, node), relationships: try relations(entity, node))
        }
        let old = choice < 5 ? fetched[index].randomElement(using: &random) : nil
        guard let id = try old?.objectID ?? objects(name, node).randomElement(using: &random)
        else { return nil }
        // Sometimes by the name of an entity it inherits from.
        let own = try node.entity(id.entityName)
        let parent = try own.parent.map { try node.entity($0) }
        let entity = Bool.random(using: &random) || old != nil ? own : parent ?? own
        let hasSnapshot = Bool.random(using: &random)
        return SaveOperation(
            kind: choice == 9 ? .delete : .update, entity: entity, row: id.row,
            values: choice == 9 ? [] : try values(entity, node),
            relationships: choice == 9 ? [] : try relations(entity, node), version: old?.version,
            snapshot: hasSnapshot ? old?.values : nil,
            resolves: Int.random(in: 0..<4, using: &random) == 0)
    }

    private func objects(_ entity: String, _ node: EngineNode) throws -> [ManagedObjectID] {
        try node.coordinator.read { try $0.objectIDs(FetchRequest(entity)) }
    }

    private mutating func values(
        _ entity: ManagedObjectModel.Entity, _ node: EngineNode
    ) throws -> [(position: Int, value: PropertyValue)] {
        var result: [(position: Int, value: PropertyValue)] = []
        for (position, property) in entity.properties.enumerated()
        where Int.random(in: 0..<5, using: &random) < 2 {
            result.append((position, try value(property.content, node)))
        }
        return result
    }

    private mutating func value(
        _ content: ManagedObjectModel.Property.Content, _ node: EngineNode
    ) throws -> PropertyValue {
        counter += 1
        // Few values, so that some writes agree.
        let number = Int64.random(in: 0..<5, using: &random)
        switch content {
        case .toOne(let destination):
            return try objects(destination, node).randomElement(using: &random)
                .map { .reference($0.row) } ?? .null
        case .attribute(.boolean): return .boolean(number < 2)
        case .attribute(.integer64): return number == 0 ? .null : .integer(number)
        case .attribute: return .string(number == 0 ? "same" : "v\(counter)")
        }
    }

    private mutating func relations(
        _ entity: ManagedObjectModel.Entity, _ node: EngineNode
    ) throws -> [RelationshipOperation] {
        var result: [RelationshipOperation] = []
        for relationship in entity.relationships {
            if case .column = relationship.storage { continue }
            guard Int.random(in: 0..<4, using: &random) == 0 else { continue }
            let candidates = try objects(relationship.destination, node)
            let most = relationship.isToMany ? 3 : 1
            let members = candidates.shuffled(using: &random).prefix(most)
            let kind: RelationshipOperation.Kind =
                relationship.isToMany
                ? [.add, .remove, .replace].randomElement(using: &random) ?? .add : .replace
            result.append(
                RelationshipOperation(
                    name: relationship.name, kind: kind, members: members.map(\.row)))
        }
        return result
    }

    // MARK: Deciding

    private mutating func remember(at index: Int) throws {
        let node = nodes[index]
        for name in Self.entities {
            let rows = try node.coordinator.read { try $0.fetch(FetchRequest(name)) }
            fetched[index] += rows.prefix(2)
        }
        fetched[index] = fetched[index].suffix(20)
    }

    private mutating func decide(at index: Int) throws {
        let node = nodes[index]
        let all = try node.coordinator.read {
            try $0.conflicts(ConflictQuery(isOpen: nil, limit: 200))
        }
        guard let conflict = all.randomElement(using: &random) else { return }
        let sides = Bool.random(using: &random) ? conflict.sides.compactMap(\.dot) : nil
        let side = conflict.sides.compactMap(\.dot).randomElement(using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            try attempt {
                _ = try node.coordinator.resolve(conflict.id, .delete, sides: sides)
            }
        case 1:
            let policy = MergePolicy.allCases.randomElement(using: &random) ?? .overwrite
            try attempt {
                _ = try node.coordinator.resolve(conflict.id, .policy(policy), sides: sides)
            }
        case 2, 3:
            guard let side else { return }
            try attempt {
                _ = try node.coordinator.resolve(conflict.id, .side(side), sides: sides)
            }
        default: try attempt { _ = try node.coordinator.undo(conflict.id, sides: sides) }
        }
    }
}
