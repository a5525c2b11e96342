import Merge
import ReferenceModel

@testable import Coordinator
@testable import Simulation

/// A run made by hand: transactions, notices and readings, told to one checker.
///
/// The archive is kept by the checker of dots, as in a world.
struct CheckerScript {
    let model: ManagedObjectModel
    let run: RunContext
    private var dots = DotChecker()

    init(machines: Int = 2, founders: Int? = nil) throws {
        model = try Self.makeModel()
        run = RunContext(model: model, machines: machines, founders: founders)
    }

    /// An entity per kind of rule that a checker looks at.
    private static func makeModel() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [
                    AttributeDescription("name", .string), AttributeDescription("size", .integer64),
                ],
                relationships: [
                    RelationshipDescription("owner", to: "Owner", inverse: "items"),
                    RelationshipDescription("tags", to: "Tag", inverse: "items", isToMany: true),
                ]),
            EntityDescription(
                "Owner", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("title", .string)],
                relationships: [
                    RelationshipDescription("items", to: "Item", inverse: "owner", isToMany: true),
                    RelationshipDescription("badge", to: "Badge", inverse: "holder"),
                ]),
            EntityDescription(
                "Badge", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("number", .integer64, isOptional: false)],
                relationships: [
                    RelationshipDescription("holder", to: "Owner", inverse: "badge"),
                    RelationshipDescription(
                        "pages", to: "Page", inverse: "badge", isToMany: true, deleteRule: .cascade),
                ],
                uniquenessConstraints: [["number"]]),
            EntityDescription(
                "Tag", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("label", .string)],
                relationships: [
                    RelationshipDescription("items", to: "Item", inverse: "tags", isToMany: true)
                ]),
            EntityDescription(
                "Note", mergePolicy: .error, attributes: [AttributeDescription("text", .string)]),
            EntityDescription(
                "Book", mergePolicy: .error, attributes: [AttributeDescription("title", .string)],
                relationships: [
                    RelationshipDescription(
                        "pages", to: "Page", inverse: "book", isToMany: true, deleteRule: .cascade)
                ]),
            EntityDescription(
                "Page", mergePolicy: .error, attributes: [AttributeDescription("text", .string)],
                relationships: [
                    RelationshipDescription("book", to: "Book", inverse: "pages"),
                    RelationshipDescription("badge", to: "Badge", inverse: "pages"),
                ]),
        ])
    }

    /// Tells observations and gives what the checker made of them.
    mutating func tell<Watch: Checker>(
        _ checker: inout Watch, _ observations: Observation...
    ) -> [String] {
        observations.flatMap { observation in
            _ = dots.observe(observation, run)
            return checker.observe(observation, run)
        }
    }

    // MARK: Transactions

    static func actor(_ node: Int, _ incarnation: UInt64 = 1) -> ActorID {
        guard let node = NodeID(node + 1) else { preconditionFailure("No such node.") }
        return ActorID(node: node, incarnation: incarnation)
    }

    static func vector(_ sequences: [(ActorID, UInt64)]) -> VersionVector {
        VersionVector(sequences.map { .init(actor: $0.0, sequence: $0.1) })
    }

    struct Write {
        var kind: Change.Kind
        var entity: String
        var row: Int64
        var values: [String: PropertyValue] = [:]
        var target: Int64?

        static func insert(
            _ entity: String, _ row: Int64, _ values: [String: PropertyValue] = [:]
        ) -> Self { Self(kind: .insert, entity: entity, row: row, values: values) }

        static func update(
            _ entity: String, _ row: Int64, _ values: [String: PropertyValue] = [:]
        ) -> Self { Self(kind: .update, entity: entity, row: row, values: values) }

        static func delete(_ entity: String, _ row: Int64) -> Self {
            Self(kind: .delete, entity: entity, row: row)
        }

        static func link(_ name: String, _ row: Int64, target: Int64) -> Self {
            Self(kind: .link, entity: name, row: row, target: target)
        }
    }

    /// A transaction; `seen` has the actor's own past by itself.
    func transaction(
        _ actor: ActorID, _ sequence: UInt64, at time: UInt64,
        seen: [(ActorID, UInt64)] = [], author: String? = nil, saveID: String? = nil,
        _ writes: Write...
    ) -> EncodedTransaction {
        var past = Self.vector(seen)
        past.advance(actor, to: sequence - 1)
        var shapes: [ChangeShape] = []
        var changes: [Change] = []
        for write in writes {
            let names = write.values.keys.sorted()
            shapes.append(ChangeShape(entity: write.entity, assigned: names))
            changes.append(
                Change(
                    kind: write.kind, shape: shapes.count - 1, row: RowID(write.row),
                    target: write.target.map { RowID($0) },
                    values: names.compactMap { write.values[$0] }))
        }
        return EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence),
                timestamp: HybridTimestamp(milliseconds: time, counter: 0) ?? .zero, seen: past,
                author: author, saveID: saveID, modelHash: model.modelHash, shapes: shapes,
                changes: changes))
    }

    // MARK: Notices and readings

    func token(_ generation: UInt64, _ vector: VersionVector) -> QueryGenerationToken {
        QueryGenerationToken(
            store: 1, generation: generation, position: generation, versionVector: vector)
    }

    func notice(
        _ generation: UInt64, _ vector: [(ActorID, UInt64)], _ transactions: [EncodedTransaction],
        isLocal: Bool = true, digest: UInt64 = 0, inserted: [ManagedObjectID] = [],
        deleted: [ManagedObjectID] = []
    ) -> CommitNotice {
        CommitNotice(
            token: token(generation, Self.vector(vector)),
            digest: ProjectionDigest(high: digest, low: 0), membership: Membership(),
            transactions: transactions, isLocal: isLocal, inserted: inserted, updated: [],
            deleted: deleted, openedConflicts: [], closedConflicts: [], hasMoreConflicts: false)
    }

    /// That a node has committed what came to these, as its generation of a number.
    func committed(
        _ generation: UInt64, _ vector: [(ActorID, UInt64)], _ transactions: [EncodedTransaction],
        on node: Int = 0, isLocal: Bool = true, inserted: [ManagedObjectID] = [],
        deleted: [ManagedObjectID] = []
    ) -> Observation {
        .committed(
            node: node,
            notice: notice(
                generation, vector, transactions, isLocal: isLocal, inserted: inserted,
                deleted: deleted))
    }

    func started(
        _ node: Int, _ incarnation: UInt64 = 1, _ vector: [(ActorID, UInt64)] = []
    ) -> Observation {
        .started(
            node: node, actor: Self.actor(node, incarnation), vector: Self.vector(vector),
            recovery: .none)
    }

    /// What an honest store shows at a vector: everything, as the oracle has it.
    func reading(_ generation: UInt64, _ vector: [(ActorID, UInt64)]) -> Reading {
        let vector = Self.vector(vector)
        let oracle = ReferenceModel(model, run.archive.transactions, at: vector)
        let unresolved = oracle.unresolvedConflicts()
        var reading = Reading(
            token: token(generation, vector), digest: ProjectionDigest(), isWhole: true,
            conflicts: [], uncollected: 0)
        for entity in model.entities {
            let rows = oracle.rows(entity.name).map { row in
                RowSnapshot(
                    objectID: ManagedObjectID(entityName: entity.name, row: row),
                    version: RowVersion(dots: Array(oracle.version(row) ?? [])),
                    values: entity.properties.map { oracle.value(row, $0.name) ?? .null },
                    isConflicted: unresolved.contains { $0.hasPrefix("\(entity.name).\(row).") })
            }
            reading.entities.append(.init(entity: entity.name, rows: rows))
            for row in rows {
                for relationship in entity.relationships {
                    guard case .link = relationship.storage else { continue }
                    let members = oracle.members(row.objectID.row, relationship.name).map {
                        ManagedObjectID(entityName: relationship.destination, row: $0)
                    }
                    reading.members.append(
                        .init(
                            object: row.objectID, relationship: relationship.name,
                            members: members))
                }
            }
        }
        return reading
    }
}

extension ManagedObjectID {
    /// The object of an entity with a number.
    static func of(_ entity: String, _ row: Int64) -> ManagedObjectID {
        ManagedObjectID(entityName: entity, row: RowID(row))
    }
}

extension Reading {
    /// Replaces a row's value, or what else is given.
    mutating func forge(
        _ id: ManagedObjectID, at position: Int? = nil, _ value: PropertyValue = .null,
        version: RowVersion? = nil, isConflicted: Bool? = nil
    ) {
        for (place, entity) in entities.enumerated() {
            for (index, row) in entity.rows.enumerated() where row.objectID == id {
                var values = row.values
                if let position { values[position] = value }
                entities[place].rows[index] = RowSnapshot(
                    objectID: id, version: version ?? row.version, values: values,
                    isConflicted: isConflicted ?? row.isConflicted)
            }
        }
    }

    /// Takes a row out.
    mutating func drop(_ id: ManagedObjectID) {
        for place in entities.indices { entities[place].rows.removeAll { $0.objectID == id } }
    }
}
