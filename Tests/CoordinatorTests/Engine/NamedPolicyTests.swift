import Coordinator
import Merge
import Synchronization
import Testing

/// Merge policies of an application's own between nodes.
@Suite struct NamedPolicyTests {
    /// The least integer; of others the first write.
    private static let least = NamedMergePolicy.register("least", version: 1) { writes in
        func number(_ place: Int) -> Int64 {
            if case .integer(let number) = writes[place].value { return number }
            return .max
        }
        return writes.indices.min { (number($0), $0) < (number($1), $1) } ?? 0
    }

    /// The longest text, the later one of equal length.
    private static let longest = NamedMergePolicy.register("longest", version: 1) { writes in
        func length(_ place: Int) -> Int {
            if case .string(let text) = writes[place].value { return text.utf8.count }
            return 0
        }
        return writes.indices.max { (length($0), $0) < (length($1), $1) } ?? 0
    }

    private static let counted = Mutex(0)

    /// What no policy may do: it chooses by how often it was called.
    private static let fickle = NamedMergePolicy.register("fickle", version: 1) { writes in
        counted.withLock { calls in
            calls += 1
            return calls % writes.count
        }
    }

    private static func model(
        _ policy: MergePolicy, isUnique: Bool = false
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Offer", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    .init("code", .string), .init("price", .integer64, mergePolicy: policy),
                    .init("text", .string),
                ], uniquenessConstraints: isUnique ? [["code"]] : [])
        ])
    }

    static func nodes(
        _ policy: MergePolicy, isUnique: Bool = false, count: Int = 2
    ) throws -> [EngineNode] {
        let model = try model(policy, isUnique: isUnique)
        return try (1...count).map { try EngineNode(model, node: $0) }
    }

    /// An offer with one price a node, given at the same time.
    static func contested(
        _ nodes: [EngineNode], _ prices: [Int64]
    ) throws -> ManagedObjectID {
        let id = try nodes[0].insert("Offer", ["price": .integer(10)])
        try exchange(nodes)
        for (node, price) in zip(nodes, prices) { try node.update(id, ["price": .integer(price)]) }
        try exchange(nodes)
        return id
    }

    private static func exchange(_ nodes: [EngineNode]) throws {
        for one in nodes { for other in nodes where other !== one { try one.take(from: other) } }
    }

    @Test(
        "Every node shows what the policy chooses, whichever came first",
        arguments: [[7, 3, 9], [3, 7, 9], [9, 7, 3]] as [[Int64]])
    func chooses(prices: [Int64]) throws {
        let nodes = try Self.nodes(Self.least, count: 3)
        let id = try Self.contested(nodes, prices)
        for node in nodes {
            #expect(try node.value(id, "price") == .integer(3))
            #expect(try node.coordinator.currentDigest == nodes[0].coordinator.currentDigest)
            #expect(try node.coordinator.verify().isOK)
            let conflict = try node.onlyConflict()
            #expect(conflict.state == .settled)
            #expect(conflict.policy == Self.least)
            #expect(conflict.explanation.rule == .named)
            #expect(conflict.explanation.text.contains("least@1"))
            #expect(conflict.sides.filter(\.isVisible).map(\.value) == [.integer(3)])
        }
    }

    @Test("What the policy chose stays when the others are collected, on one node alone too")
    func collapses() throws {
        let nodes = try Self.nodes(Self.least)
        let id = try Self.contested(nodes, [3, 7])
        let digest = try nodes[0].coordinator.currentDigest
        let collected = try nodes[0].coordinator.collect(stable: nodes[0].vector)
        #expect(collected.isDone)
        #expect(try nodes[0].value(id, "price") == .integer(3))
        #expect(try nodes[0].coordinator.currentDigest == digest)
        #expect(try nodes[1].coordinator.currentDigest == digest)
        #expect(try nodes[0].coordinator.verify().isOK)
        #expect(try nodes[0].conflicts().isEmpty)
    }

    @Test("What it chose is undone by the other side, and resolved by any")
    func decided() throws {
        let nodes = try Self.nodes(Self.least)
        let id = try Self.contested(nodes, [3, 7])
        _ = try nodes[0].coordinator.undo(try nodes[0].onlyConflict().id)
        #expect(try nodes[0].value(id, "price") == .integer(7))
        let again = try Self.contested(nodes, [5, 4])
        try nodes[1].resolve(try nodes[1].onlyConflict().id, .policy(Self.least))
        #expect(try nodes[1].value(again, "price") == .integer(4))
        let third = try Self.contested(nodes, [6, 7])
        let conflict = try nodes[0].onlyConflict()
        // It was made for other values.
        let error = try #require(throws: CoordinatorError.self) {
            try nodes[0].resolve(conflict.id, .policy(Self.longest))
        }
        #expect(error.message.contains("longest@1 is not that of"))
        try nodes[1].resolve(conflict.id, .policy(Self.least))
        #expect(try nodes[1].value(third, "price") == .integer(6))
        #expect(try nodes[1].conflicts().isEmpty)
    }

    @Test("Objects with one unique key show what it chooses of all of theirs")
    func groups() throws {
        let nodes = try Self.nodes(Self.least, isUnique: true, count: 3)
        for (node, price) in zip(nodes, [8, 2, 5] as [Int64]) {
            try node.insert("Offer", ["code": .string("x"), "price": .integer(price)])
        }
        try Self.exchange(nodes)
        for node in nodes {
            let offers = try node.coordinator.read { try $0.fetch(FetchRequest("Offer")) }
            let position = try #require(try node.entity("Offer").columnPosition(of: "price"))
            #expect(offers.map { $0.values[position] } == [.integer(2)])
            #expect(try node.coordinator.currentDigest == nodes[0].coordinator.currentDigest)
            #expect(try node.coordinator.verify().isOK)
        }
    }

    @Test("Random clusters converge to what the oracle computes", arguments: 0..<2)
    func converge(_ block: Int) throws {
        let model = try EngineModel.everything(texts: Self.longest, numbers: Self.least)
        for seed in 5_000 + block * 20..<5_020 + block * 20 {
            var cluster = try RandomCluster(seed: UInt64(seed), model)
            try cluster.run(steps: 45)
            try cluster.settle()
            try ClusterExpectations.expectEqual(cluster.nodes, seed)
            guard let first = cluster.nodes.first else { continue }
            try ClusterExpectations.expectOracle(first, seed)
        }
    }

    @Test("A policy that is not deterministic is found by the digests, or by verification")
    func fickleness() throws {
        let nodes = try Self.nodes(Self.fickle)
        let id = try Self.contested(nodes, [3, 7])
        let isFound = try (0..<8).contains { _ in
            let reports = try nodes.map { try $0.coordinator.verify() }
            try nodes[0].update(id, ["text": .string("again")])
            try Self.exchange(nodes)
            return try reports.contains { !$0.isOK }
                || nodes[0].coordinator.currentDigest != nodes[1].coordinator.currentDigest
        }
        #expect(isFound)
    }

    // MARK: Models

    @Test("A model names a policy with its version; both are in its hash and its JSON")
    func inModels() throws {
        let model = try Self.model(Self.least)
        let text = JSONWriter.text(of: model.jsonValue())
        #expect(text.contains("\"mergePolicy\":\"least@1\""))
        let read = try ManagedObjectModel(json: Array(text.utf8))
        #expect(read.modelHash == model.modelHash)
        let other = NamedMergePolicy.register("least", version: 2) { _ in 0 }
        #expect(try Self.model(other).modelHash != model.modelHash)
        #expect(try Self.model(.error).modelHash != model.modelHash)
    }

    @Test("A program that has not registered it refuses the model, and says so")
    func unregistered() throws {
        let text = JSONWriter.text(of: try Self.model(Self.least).jsonValue())
            .replacing("least@1", with: "least@17")
        let error = try #require(throws: ModelError.self) {
            _ = try ManagedObjectModel(json: Array(text.utf8))
        }
        #expect(
            "\(error)".contains("this program has not registered the merge policy \"least@17\""))
        let wrong = try #require(throws: ModelError.self) {
            _ = try ManagedObjectModel(
                json: Array(text.replacing("least@17", with: "lest").utf8))
        }
        #expect("\(wrong)".contains("one of error,"))
    }

    @Test("A store with a model of a policy that is not registered is not taken for damaged")
    func unregisteredInStore() throws {
        let node = try EngineNode(try Self.model(Self.least))
        node.close()
        try node.tamper("UPDATE _model SET json = replace(json, 'least@1', 'least@17')")
        let errors = [
            try #require(throws: CoordinatorError.self) { try node.open() },
            try #require(throws: CoordinatorError.self) {
                _ = try PersistentStoreCoordinator(readingStoreAt: node.path)
            },
        ]
        for error in errors {
            #expect(error.code == .modelMismatch)
            #expect(error.message.contains("least@17, which this program has not registered"))
        }
    }

    @Test("A place that is none, a name that is none and a second registration end the program")
    func misuse() async {
        await #expect(processExitsWith: .failure) {
            let outside = NamedMergePolicy.register("outside", version: 1) { $0.count }
            guard let nodes = try? NamedPolicyTests.nodes(outside) else { return }
            _ = try? NamedPolicyTests.contested(nodes, [1, 2])
        }
        await #expect(processExitsWith: .failure) {
            for _ in 0..<2 { NamedMergePolicy.register("twice", version: 1) { _ in 0 } }
        }
        await #expect(processExitsWith: .failure) {
            NamedMergePolicy.register("no name", version: 1) { _ in 0 }
        }
        await #expect(processExitsWith: .failure) {
            NamedMergePolicy.register("name", version: 0) { _ in 0 }
        }
    }

    @Test("Entities and relationships have none")
    func placesRefused() throws {
        let onEntity = try #require(throws: ModelError.self) {
            _ = try ManagedObjectModel(entities: [
                EntityDescription(
                    "Offer", mergePolicy: Self.least, attributes: [.init("price", .integer64)])
            ])
        }
        #expect("\(onEntity)".contains("merge policy least@1 is for attributes"))
        let onRelationship = try #require(throws: ModelError.self) {
            _ = try ManagedObjectModel(entities: [
                EntityDescription(
                    "Offer", mergePolicy: .error,
                    relationships: [
                        .init("next", to: "Offer", inverse: "last", mergePolicy: Self.least),
                        .init("last", to: "Offer", inverse: "next", isToMany: true),
                    ])
            ])
        }
        #expect("\(onRelationship)".contains("merge policy least@1 is for attributes"))
        let onRow = try #require(throws: ModelError.self) {
            _ = try ManagedObjectModel(entities: [
                EntityDescription(
                    "Offer", mergePolicy: .overwrite,
                    attributes: [.init("price", .integer64, mergePolicy: Self.least)])
            ])
        }
        #expect("\(onRow)".contains("property-grained"))
    }

    @Test("A save and a conflict of other things than values do not take it")
    func otherUses() throws {
        let nodes = try Self.nodes(Self.least)
        let id = try nodes[0].insert("Offer", ["price": .integer(1)])
        try Self.exchange(nodes)
        try nodes[0].delete(id)
        try nodes[1].update(id, ["price": .integer(2)])
        try Self.exchange(nodes)
        let conflict = try nodes[0].onlyConflict()
        #expect(conflict.kind == .delete)
        let error = try #require(throws: CoordinatorError.self) {
            try nodes[0].resolve(conflict.id, .policy(Self.least))
        }
        #expect(error.code == .malformed)
        #expect(error.message.contains("least@1 is not that of"))
    }
}
