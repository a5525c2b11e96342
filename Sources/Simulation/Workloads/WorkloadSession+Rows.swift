internal import Coordinator
internal import Merge
internal import Replication

/// The clients' view of a store, and their memory of it.
extension WorkloadSession {
    /// How many rows of an entity a client looks at: more than populations mostly have, and few
    /// enough that looking costs less than saving.
    static let glance = 20
    /// How many rows there may be for a client to fetch them all, which are all checked.
    static let most = 64

    /// The number of the node the client talks to.
    var node: Int64 { Int64(coordinator.node.rawValue) }

    /// Rows of an entity and its heirs, by number: in some steps all of them; none where the store
    /// cannot be read.
    func rows(
        _ entity: ManagedObjectModel.Entity, _ generator: inout SeededGenerator
    ) -> [RowSnapshot] {
        let isAll = generator.chance(in: 6) && count(entity) <= Self.most
        let limit = isAll ? 0 : Self.glance
        let rows = read { reader, reading in
            let rows = try reader.fetch(FetchRequest(entity.name, fetchLimit: limit))
            reading.entities = Reading.sort(rows, family: entity, model, isWhole: isAll)
            reading.lists = [list(rows.map(\.objectID), of: entity, limit)]
            return rows
        }
        return rows ?? []
    }

    /// The identities of an entity's and its heirs' objects, by number.
    func objects(
        _ entity: ManagedObjectModel.Entity, limit: Int = WorkloadSession.glance
    ) -> [ManagedObjectID] {
        let objects = read { reader, reading in
            let objects = try reader.objectIDs(FetchRequest(entity.name, fetchLimit: limit))
            reading.lists = [list(objects, of: entity, limit)]
            return objects
        }
        return objects ?? []
    }

    private func list(
        _ objects: [ManagedObjectID], of entity: ManagedObjectModel.Entity, _ limit: Int
    ) -> Reading.ListReading {
        Reading.ListReading(
            entity: entity.name, limit: limit > 0 ? limit : .max, count: objects.count,
            objects: objects)
    }

    /// How many objects an entity and its heirs have.
    func count(_ entity: ManagedObjectModel.Entity) -> Int {
        let count = read { reader, reading in
            let count = try reader.count(FetchRequest(entity.name))
            reading.lists = [Reading.ListReading(entity: entity.name, count: count)]
            return count
        }
        return count ?? 0
    }

    /// One row as it is now; nil where it is gone.
    func row(_ id: ManagedObjectID) -> RowSnapshot? {
        read { reader, reading in try row(id, reader, &reading) } ?? nil
    }

    /// One row as a reader has it, noted in what was read; nil where it is gone.
    func row(
        _ id: ManagedObjectID, _ reader: StoreReader, _ reading: inout Reading
    ) throws -> RowSnapshot? {
        guard let entity = model.entity(named: id.entityName) else { return nil }
        guard let row = try reader.row(entity, id.row) else {
            reading.absent.append(id)
            return nil
        }
        reading.entities.append(
            .init(entity: row.objectID.entityName, rows: [row], isWhole: false))
        return row
    }

    /// The members of a relationship that is kept elsewhere than in the row.
    func members(
        _ relationship: ManagedObjectModel.Relationship, of id: ManagedObjectID
    ) -> [RowID] {
        guard let entity = model.entity(named: id.entityName) else { return [] }
        let members = read { reader, reading in
            let members = try reader.members(of: relationship, entity: entity, row: id.row)
            reading.members = [
                .init(object: id, relationship: relationship.name, members: members)
            ]
            return members
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
