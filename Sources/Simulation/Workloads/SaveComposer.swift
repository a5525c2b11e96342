internal import Coordinator
internal import Merge
internal import Replication

/// Composes one save: operations that a model admits, on rows that clients meet on.
struct SaveComposer {
    private let session: WorkloadSession
    private var lastTemporary: Int64 = 0
    /// The save's operations so far.
    private(set) var operations: [SaveOperation] = []

    init(_ session: WorkloadSession) { self.session = session }

    /// The save, under a context's policy drawn by chance unless given. Its author is left to the
    /// world, which tells saves apart by it; but one that is repeated keeps its own.
    func request(
        under policy: MergePolicy? = nil, saveID: String? = nil,
        _ generator: inout SeededGenerator
    ) -> SaveRequest {
        SaveRequest(
            operations: operations,
            mergePolicy: policy ?? generator.choice(MergePolicy.allCases) ?? .error,
            author: saveID, saveID: saveID)
    }

    mutating func add(_ operation: SaveOperation) { operations.append(operation) }

    // MARK: Inserting

    /// Inserts an object, with what its entity demands; what it must lead to and nobody has made
    /// yet is inserted before it.
    ///
    /// - Parameters:
    ///   - set: values by position that are not left to chance.
    ///   - depth: how many inserts have led to this one; a chain of demands ends at four, with a
    ///     save that is then refused.
    /// - Returns: the temporary identity.
    @discardableResult
    mutating func insert(
        _ entity: ManagedObjectModel.Entity, set: [Int: PropertyValue] = [:],
        relationships: [RelationshipOperation] = [], depth: Int = 0,
        _ generator: inout SeededGenerator
    ) -> RowID {
        lastTemporary -= 1
        let row = RowID(lastTemporary)
        let maker = session.nextValues()
        var values: [(position: Int, value: PropertyValue)] = []
        for (position, property) in entity.properties.enumerated() {
            if let value = set[position] {
                values.append((position, value))
            } else if let value = value(
                of: property, of: entity, row: row, maker, depth: depth, &generator)
            {
                values.append((position, value))
            }
        }
        let given = Set(relationships.map(\.name))
        let demanded = demands(of: entity, row: row, besides: given, depth: depth, &generator)
        operations.append(
            SaveOperation(
                kind: .insert, entity: entity, row: row, values: values,
                relationships: relationships + demanded))
        return row
    }

    /// The value that an insert gives a property; nil for nothing, so that it has its default.
    private mutating func value(
        of property: ManagedObjectModel.Property, of entity: ManagedObjectModel.Entity,
        row: RowID, _ maker: ValueMaker, depth: Int, _ generator: inout SeededGenerator
    ) -> PropertyValue? {
        let isDemanded = !property.isOptional && property.defaultValue.isNull
        guard case .toOne(let name) = property.content else {
            guard isDemanded || generator.chance(2, in: 3) else { return nil }
            return maker.value(of: property, &generator)
        }
        guard isDemanded || generator.chance(in: 3),
            let destination = session.model.entity(named: name)
        else { return nil }
        let isOwn = destination.familyNames.contains(entity.name)
        if isDemanded, isOwn { return .reference(row) }
        let takes = takesAway(property, entity)
        if !takes, let target = generator.hot(session.objects(destination)) {
            return .reference(target.row)
        }
        guard isDemanded, depth < 4,
            let concrete = generator.choice(ModelStructure.concrete(destination, session.model))
        else { return nil }
        return .reference(insert(concrete, depth: depth + 1, &generator))
    }

    /// Whether leading a property to an existing row takes that row from another that must have
    /// one.
    private func takesAway(
        _ property: ManagedObjectModel.Property, _ entity: ManagedObjectModel.Entity
    ) -> Bool {
        !property.isOptional
            && ModelStructure.oneToOnes(session.model).contains {
                $0.entity === entity && $0.relationship.name == property.name
            }
    }

    /// The members without which an insert would be refused.
    private mutating func demands(
        of entity: ManagedObjectModel.Entity, row: RowID, besides given: Set<String>, depth: Int,
        _ generator: inout SeededGenerator
    ) -> [RelationshipOperation] {
        var result: [RelationshipOperation] = []
        for relationship in entity.relationships where !given.contains(relationship.name) {
            let description = relationship.description
            let least = max(description.minimumCount, description.isOptional ? 0 : 1)
            guard relationship.isToMany, least > 0,
                let destination = session.model.entity(named: relationship.destination)
            else { continue }
            var members: [RowID] = []
            if case .link = relationship.storage {
                members = generator.some(session.objects(destination), most: least).map(\.row)
            }
            // Children of others are left to them, who may need them too.
            let kinds = ModelStructure.concrete(destination, session.model)
            while members.count < least, depth < 4, let kind = generator.choice(kinds) {
                var back: [Int: PropertyValue] = [:]
                if case .inverseColumn(_, let property) = relationship.storage,
                    let position = kind.position(of: property)
                {
                    back[position] = .reference(row)
                }
                members.append(insert(kind, set: back, depth: depth + 1, &generator))
            }
            result.append(
                RelationshipOperation(name: relationship.name, kind: .add, members: members))
        }
        return result
    }

    // MARK: Updating and deleting

    /// Against what an operation is made.
    enum Basis {
        /// Whatever the store holds: last write wins, by choice.
        case blind
        /// A version, as the HTTP interface does.
        case version(RowSnapshot)
        /// A version and the values fetched with it, as a context does.
        case snapshot(RowSnapshot)
    }

    /// Draws against what a client writes: nothing, the row as it is, or as it remembers it.
    func basis(for row: RowSnapshot, _ generator: inout SeededGenerator) -> Basis {
        let kind = generator.number(below: 6)
        let old = session.memory.fetched.filter { $0.objectID == row.objectID }
        let known = kind < 4 ? row : generator.choice(old) ?? row
        switch kind {
        case 0, 1: return .blind
        case 2, 4: return .version(known)
        default: return .snapshot(known)
        }
    }

    /// Changes some properties of a row.
    ///
    /// - Parameters:
    ///   - values: by position in the row's own entity; nil for one to three by chance.
    ///   - resolves: whether it decides what is unresolved; nil for chance, which is higher where
    ///     something is.
    mutating func update(
        _ row: RowSnapshot, values: [(position: Int, value: PropertyValue)]? = nil,
        relationships: [RelationshipOperation] = [], basis: Basis? = nil,
        resolves: Bool? = nil, _ generator: inout SeededGenerator
    ) {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return }
        let values = values ?? changes(of: row, entity, &generator)
        let basis = basis ?? self.basis(for: row, &generator)
        if values.isEmpty, relationships.isEmpty { return }
        operations.append(
            operation(
                .update, entity, row.objectID.row, values, relationships, basis,
                resolves ?? draw(row, &generator)))
    }

    /// Deletes a row.
    mutating func delete(
        _ row: RowSnapshot, basis: Basis? = nil, _ generator: inout SeededGenerator
    ) {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return }
        let basis = basis ?? self.basis(for: row, &generator)
        let resolves = draw(row, &generator)
        operations.append(operation(.delete, entity, row.objectID.row, [], [], basis, resolves))
    }

    /// Whether a write is to resolve what is unresolved: often where something is, so that rows
    /// do not stay stuck for the rest of a run.
    private func draw(_ row: RowSnapshot, _ generator: inout SeededGenerator) -> Bool {
        row.isConflicted ? generator.chance(2, in: 3) : generator.chance(in: 8)
    }

    private func operation(
        _ kind: SaveOperation.Kind, _ entity: ManagedObjectModel.Entity, _ row: RowID,
        _ values: [(position: Int, value: PropertyValue)],
        _ relationships: [RelationshipOperation], _ basis: Basis, _ resolves: Bool
    ) -> SaveOperation {
        var operation = SaveOperation(
            kind: kind, entity: entity, row: row, values: values, relationships: relationships,
            resolves: resolves)
        switch basis {
        case .blind: break
        case .version(let known): operation.version = known.version
        case .snapshot(let known):
            operation.version = known.version
            operation.snapshot = known.values
        }
        return operation
    }

    /// New values for one to three properties of a row, references now and then among them.
    func changes(
        of row: RowSnapshot, _ entity: ManagedObjectModel.Entity,
        _ generator: inout SeededGenerator
    ) -> [(position: Int, value: PropertyValue)] {
        let maker = session.nextValues()
        let most = 1 + generator.number(below: 3)
        let places = generator.some(Array(entity.properties.indices), most: most).sorted()
        var result: [(position: Int, value: PropertyValue)] = []
        for position in places {
            let property = entity.properties[position]
            guard case .toOne(let name) = property.content else {
                result.append((position, maker.value(of: property, &generator)))
                continue
            }
            guard generator.chance(in: 2), !takesAway(property, entity),
                let destination = session.model.entity(named: name)
            else { continue }
            if property.isOptional, generator.chance(in: 4) {
                result.append((position, .null))
            } else if let target = generator.hot(session.objects(destination)) {
                result.append((position, .reference(target.row)))
            }
        }
        return result
    }
}
