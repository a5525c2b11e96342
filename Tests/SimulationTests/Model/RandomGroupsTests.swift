import Coordinator
import Merge
import Testing

/// Nodes that save at random under uniqueness constraints and hear of each other in random,
/// causally valid order: what each shows is always what the reference model says.
@Suite struct RandomGroupsTests {
    /// Seeds a block.
    private static let size = 6

    private struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return word ^ (word >> 31)
        }

        mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
    }

    private struct Cluster {
        let nodes: [ScriptedNode]
        let model: ManagedObjectModel
        var random: Generator
        var time: UInt64 = 1
        /// Objects as somebody fetched them some time ago, eclipsed by now perhaps.
        var known: [Int: [RowSnapshot]] = [:]
        /// The node that the last step was at.
        var index = 0
        var touched: ScriptedNode?

        init(seed: Int) throws {
            var random = Generator(state: UInt64(seed))
            let policies = MergePolicy.allCases
            let policy = policies[random.below(policies.count)]
            let target = policies[random.below(policies.count)]
            let isOverridden = random.below(3) == 0
            let override: MergePolicy? =
                policy.granularity == .property && isOverridden
                ? [.error, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump][random.below(3)]
                : nil
            model = try ExampleModel.unique(policy, target: target, override: override)
            var nodes: [ScriptedNode] = []
            for number in 1...(2 + random.below(2)) {
                nodes.append(try ScriptedNode(model, node: number))
            }
            self.random = random
            self.nodes = nodes
        }

        mutating func step() throws {
            index = random.below(nodes.count)
            let node = nodes[index]
            touched = node
            // Clocks that stand still now and then, so that stamps are close.
            if random.below(2) == 0 { time += 1 }
            _ = node.at(time)
            switch random.below(12) {
            case 0..<7: try save(node)
            case 7: try decide(node)
            case 8:
                for entity in ["A", "B"] {
                    known[index, default: []] += try node.coordinator.read {
                        try $0.fetch(FetchRequest(entity))
                    }
                }
                known[index] = known[index]?.suffix(12)
            default: try deliver(to: node)
            }
        }

        private mutating func deliver(to node: ScriptedNode) throws {
            for _ in 0..<(1 + random.below(4)) {
                let have = try node.vector
                var ready: [EncodedTransaction] = []
                for other in nodes where other !== node {
                    ready += try other.log().filter {
                        have[$0.dot.actor] == $0.dot.sequence - 1
                            && have.covers($0.transaction.seen)
                    }
                }
                guard !ready.isEmpty else { return }
                try node.apply([ready[random.below(ready.count)]])
            }
        }

        private static let refusals: [CoordinatorError.Code] = [
            .mergeConflict, .unresolvedConflict, .constraintConflict, .objectNotFound,
            .validationFailed, .malformed, .conflictNotFound, .cannotBeUndone, .sidesChanged,
            .alreadyResolved,
        ]

        private func attempt(_ body: () throws -> Void) throws {
            do { try body() } catch let error as CoordinatorError
                where Self.refusals.contains(error.code)
            {}
        }

        private mutating func save(_ node: ScriptedNode) throws {
            var operations: [SaveOperation] = []
            for place in 0..<(1 + random.below(3)) {
                if let operation = try operation(node, Int64(-1 - place)) {
                    operations.append(operation)
                }
            }
            let policy = MergePolicy.allCases[random.below(6)]
            let request = SaveRequest(operations: operations, mergePolicy: policy)
            try attempt { _ = try node.coordinator.save(request) }
        }

        private mutating func operation(
            _ node: ScriptedNode, _ temporary: Int64
        ) throws -> SaveOperation? {
            let name = ["A", "A", "B", "C"][random.below(4)]
            let choice = random.below(10)
            if choice < 4 {
                let entity = try #require(model.entity(named: name))
                return SaveOperation(
                    kind: .insert, entity: entity, row: RowID(temporary),
                    values: try values(entity, node), relationships: try links(entity, node))
            }
            let known = known[index] ?? []
            let old = choice < 6 && !known.isEmpty ? known[random.below(known.count)] : nil
            let rows = try node.coordinator.read { try $0.objectIDs(FetchRequest(name)) }
            guard let id = old?.objectID ?? (rows.isEmpty ? nil : rows[random.below(rows.count)])
            else { return nil }
            let entity = try #require(model.entity(named: id.entityName))
            let isDelete = choice == 9
            let isStale = old != nil && random.below(2) == 0
            return SaveOperation(
                kind: isDelete ? .delete : .update, entity: entity, row: id.row,
                values: isDelete ? [] : try values(entity, node),
                relationships: isDelete ? [] : try links(entity, node),
                version: isStale ? old?.version : nil,
                snapshot: isStale && random.below(2) == 0 ? old?.values : nil,
                resolves: random.below(4) == 0)
        }

        private mutating func values(
            _ entity: ManagedObjectModel.Entity, _ node: ScriptedNode
        ) throws -> [(position: Int, value: PropertyValue)] {
            var result: [(position: Int, value: PropertyValue)] = []
            for (position, property) in entity.properties.enumerated() where random.below(5) < 2 {
                let number = Int64(random.below(4))
                switch property.content {
                case .toOne(let destination):
                    let rows = try node.coordinator.read {
                        try $0.objectIDs(FetchRequest(destination))
                    }
                    let target = rows.isEmpty ? nil : rows[random.below(rows.count)].row
                    result.append((position, target.map { .reference($0) } ?? .null))
                case .attribute(.integer64):
                    result.append((position, number == 3 ? .null : .integer(number)))
                case .attribute(.double):
                    result.append((position, .double([0, -0.0, 1, .nan][Int(number)])))
                case .attribute:
                    result.append((position, number == 3 ? .null : "\(property.name)\(number)"))
                }
            }
            return result
        }

        private mutating func links(
            _ entity: ManagedObjectModel.Entity, _ node: ScriptedNode
        ) throws -> [RelationshipOperation] {
            var result: [RelationshipOperation] = []
            for relationship in entity.relationships {
                if case .column = relationship.storage { continue }
                guard random.below(4) == 0 else { continue }
                let rows = try node.coordinator.read {
                    try $0.objectIDs(FetchRequest(relationship.destination))
                }
                guard !rows.isEmpty else { continue }
                let kinds: [RelationshipOperation.Kind] =
                    relationship.isToMany ? [.add, .remove, .replace] : [.replace]
                result.append(
                    RelationshipOperation(
                        name: relationship.name, kind: kinds[random.below(kinds.count)],
                        members: [rows[random.below(rows.count)].row]))
            }
            return result
        }

        private mutating func decide(_ node: ScriptedNode) throws {
            let open = try node.journal(isOpen: true)
            guard !open.isEmpty else { return }
            let conflict = open[random.below(open.count)]
            let sides = conflict.sides.filter { $0.dot != nil }
            let choice = random.below(5)
            let side = sides.isEmpty ? nil : sides[random.below(sides.count)]
            let other = conflict.sides.last?.object
            try attempt {
                switch choice {
                case 0: _ = try node.coordinator.resolve(conflict.id, .delete) as SaveResult
                case 1:
                    _ = try node.coordinator.resolve(conflict.id, .policy(.overwrite)) as SaveResult
                case 2 where other?.entityName == "B":
                    _ =
                        try node.coordinator.resolve(
                            conflict.id, .change([try #require(other): ["b": "new"]]))
                        as SaveResult
                default:
                    guard let side, let dot = side.dot else { return }
                    // One transaction may have written several sides.
                    let chosen = side.object.map { ConflictResolution.sideOf($0, dot) }
                    _ =
                        try node.coordinator.resolve(conflict.id, chosen ?? .side(dot))
                        as SaveResult
                }
            }
        }
    }

    @Test("Under constraints, too, what is seen follows from the saves alone", arguments: 0..<10)
    func random(_ block: Int) throws {
        for seed in block * Self.size..<(block + 1) * Self.size {
            var cluster = try Cluster(seed: seed)
            for _ in 0..<40 {
                try cluster.step()
                let place = "seed \(seed) time \(cluster.time):"
                if let node = cluster.touched { try expectAgreement(node, place) }
            }
            for _ in 0..<2 {
                for node in cluster.nodes {
                    for other in cluster.nodes where other !== node { try node.take(other) }
                }
            }
            let first = cluster.nodes[0]
            for node in cluster.nodes {
                #expect(try node.digest == first.digest, "seed \(seed)")
                let report = try node.coordinator.verify()
                #expect(report.isOK, "seed \(seed): \(report.differences)")
            }
            let digest = try first.digest
            try first.collect(stable: try first.vector)
            #expect(try first.digest == digest, "seed \(seed)")
            try expectAgreement(first, "seed \(seed) collected:", hasCollected: true)
        }
    }
}
