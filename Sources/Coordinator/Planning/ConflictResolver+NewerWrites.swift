import Merge

/// The newer writes that undoing a conflict would write over.
extension ConflictResolver {
    /// The writes since a conflict was closed that undoing it would write over; sorted.
    ///
    /// A transaction that has left the log came before: a closed conflict is kept no longer than
    /// the transactions of its time. A transaction in the log came after if neither a side nor the
    /// transaction that closed the conflict had seen it. If no transaction closed it, its
    /// generation decides.
    func newerWrites(
        than conflict: Conflict, undoneBy wanted: ConflictSide
    ) throws -> [Dot] {
        guard let closedAt = conflict.id.closedAt else { return [] }
        let closing = try conflict.closedBy.flatMap { try view.transaction($0) }
        var known = Set(
            conflict.sides.flatMap { side in
                [side.dot].compactMap(\.self) + side.row.compactMap(\.stamp?.dot)
            })
        if let closedBy = conflict.closedBy { known.insert(closedBy) }
        var seen = VersionVector()
        for dot in known {
            if let transaction = try view.transaction(dot) {
                seen.join(transaction.transaction.seen)
            }
        }
        return try Set(writes(of: conflict, replacedBy: wanted)).subtracting(known).filter {
            guard !seen.contains($0), let generation = try view.generation(of: $0) else {
                return false
            }
            return closing != nil || generation > closedAt
        }.sorted()
    }

    /// The writes that stand where choosing a side would write.
    func writes(
        of conflict: Conflict, replacedBy side: ConflictSide
    ) throws -> [Dot] {
        try side.relationships.flatMap { try writes(of: $0, conflict) }
            + writes(ofRow: conflict, replacedBy: side)
    }

    /// The same of a change of a to-many.
    func writes(
        of change: RelationshipOperation, _ conflict: Conflict
    ) throws -> [Dot] {
        let row = conflict.id.row
        guard let relationship = try entity(conflict.object).relationship(named: change.name) else {
            return []
        }
        var others = Set(change.members)
        if change.kind == .replace {
            others.formUnion(try view.members(of: relationship, row: row))
        }
        switch relationship.storage {
        case .column: return []
        case .inverseColumn(let entity, let property):
            return try others.flatMap { other -> [Dot] in
                guard let loaded = try view.load(table(entity), other),
                    let position = loaded.table.entity.position(of: property)
                else { return [] }
                return loaded.table.policies(for: loaded.state).isRowGrained
                    ? loaded.state.existence.siblings.map(\.dot)
                    : loaded.state.properties[position].siblings.map(\.dot)
            }
        case .link(let name, let isFirst):
            guard let link = model.link(named: name) else { return [] }
            return try others.flatMap { other in
                try view.loadLink(
                    link, source: isFirst ? row : other, target: isFirst ? other : row
                ).siblings.map(\.dot)
            }
        }
    }

    /// The same of the row itself, or of the link that the conflict is about.
    func writes(
        ofRow conflict: Conflict, replacedBy side: ConflictSide
    ) throws -> [Dot] {
        if conflict.kind == .link {
            let entity = try entity(conflict.object)
            guard case .reference(let target)? = side.value, let property = conflict.property,
                case .link(let name, let isFirst)? = entity.relationship(named: property)?.storage,
                let link = model.link(named: name)
            else { return [] }
            let row = conflict.id.row
            return try view.loadLink(
                link, source: isFirst ? row : target, target: isFirst ? target : row
            ).siblings.map(\.dot)
        }
        let named = try entity(conflict.object).name
        guard let loaded = try view.load(table(named), conflict.id.row) else { return [] }
        let state = loaded.state
        if side.isDeleted || loaded.table.policies(for: state).isRowGrained {
            return state.existence.siblings.map(\.dot)
        }
        let names = conflict.property.map { [$0] } ?? side.row.map(\.name)
        let life =
            conflict.property != nil
            ? []
            : state.insertion.siblings.map(\.dot)
                + state.existence.siblings.filter { !$0.value.isAlive }.map(\.dot)
        return names.compactMap(loaded.table.entity.position).flatMap {
            state.properties[$0].siblings.map(\.dot)
        } + life
    }
}
