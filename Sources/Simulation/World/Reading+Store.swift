internal import Coordinator
internal import Merge

extension Reading {
    /// Reads all there is to see in one generation.
    static func whole(_ reader: StoreReader, _ model: ManagedObjectModel) throws -> Reading {
        var reading = Reading(token: try reader.token, digest: try reader.digest)
        for root in model.entities where root.parent == nil {
            let rows = try reader.fetch(FetchRequest(root.name))
            reading.entities += sort(rows, family: root, model)
        }
        reading.entities.sort { $0.entity < $1.entity }
        for entity in reading.entities {
            guard let described = model.entity(named: entity.entity) else { continue }
            for relationship in described.relationships {
                guard case .link = relationship.storage else { continue }
                for row in entity.rows {
                    reading.members.append(
                        MembersReading(
                            object: row.objectID, relationship: relationship.name,
                            members: try reader.members(
                                of: relationship, entity: described, row: row.objectID.row)))
                }
            }
        }
        reading.conflicts = try reader.conflicts(ConflictQuery(limit: 10_000))
        reading.uncollected = try reader.uncollectedCount
        reading.isWhole = true
        return reading
    }

    /// Rows of a family by their own entity, each sorted; entities without rows are there too.
    ///
    /// - Parameter isWhole: whether these are all rows of the family.
    static func sort(
        _ rows: [RowSnapshot], family: ManagedObjectModel.Entity, _ model: ManagedObjectModel,
        isWhole: Bool = true
    ) -> [EntityReading] {
        family.familyNames.compactMap { name in
            guard let entity = model.entity(named: name), !entity.isAbstract else { return nil }
            let own = rows.filter { $0.objectID.entityName == name }
            return EntityReading(
                entity: name, rows: own.sorted { $0.objectID.row < $1.objectID.row },
                isWhole: isWhole)
        }
    }
}
