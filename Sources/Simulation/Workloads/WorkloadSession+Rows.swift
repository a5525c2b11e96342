internal import Coordinator
internal import Merge
internal import Replication

/// What clients see of a store, and what they remember of it.
extension WorkloadSession {
    /// How many rows of an entity a client looks at: more than populations mostly have, and few
    /// enough that looking costs less than saving.
    static let glance = 20
    /// How many rows an observed fetch may give, for all of them are checked.
    static let most = 64

    /// The number of the node the client talks to.
    var node: Int64 { Int64(coordinator.node.rawValue) }

    /// Rows of an entity and its heirs, by number; none where the store cannot be read.
    ///
    /// In some steps they are fetched as observed, so that what clients are told is checked.
    func rows(
        _ entity: ManagedObjectModel.Entity, _ generator: inout SeededGenerator
    ) -> [RowSnapshot] {
        let isObserved = generator.chance(in: 6)
        if isObserved, count(entity) <= Self.most { return fetch(entity.name) }
        let request = FetchRequest(entity.name, fetchLimit: Self.glance)
        return (try? coordinator.read { try $0.fetch(request) }) ?? []
    }

    /// The identities of an entity's and its heirs' objects, by number.
    func objects(_ entity: ManagedObjectModel.Entity) -> [ManagedObjectID] {
        let request = FetchRequest(entity.name, fetchLimit: Self.glance)
        return (try? coordinator.read { try $0.objectIDs(request) }) ?? []
    }

    /// How many objects an entity and its heirs have.
    func count(_ entity: ManagedObjectModel.Entity) -> Int {
        (try? coordinator.read { try $0.count(FetchRequest(entity.name)) }) ?? 0
    }

    /// One row as it is now; nil where it is gone.
    func row(_ id: ManagedObjectID) -> RowSnapshot? {
        guard let entity = model.entity(named: id.entityName) else { return nil }
        return try? coordinator.read { try $0.row(entity, id.row) }
    }

    /// The members of a relationship that is kept elsewhere than in the row.
    func members(
        _ relationship: ManagedObjectModel.Relationship, of id: ManagedObjectID
    ) -> [RowID] {
        guard let entity = model.entity(named: id.entityName) else { return [] }
        let members = try? coordinator.read {
            try $0.members(of: relationship, entity: entity, row: id.row)
        }
        return members?.map(\.row) ?? []
    }

    /// Keeps some rows as they are now, to be saved against later.
    ///
    /// A short list, so that what is remembered is met again while its row still lives.
    func remember(_ rows: [RowSnapshot], _ generator: inout SeededGenerator) {
        memory.fetched += generator.some(Array(rows.prefix(6)), most: 2)
        memory.fetched = memory.fetched.suffix(24)
    }

    /// Makes values for the next write, different from all earlier ones.
    func nextValues() -> ValueMaker {
        memory.counter += 1
        return ValueMaker(node: node, counter: memory.counter)
    }
}
