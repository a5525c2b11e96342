import Merge

/// The work of a batch request. Only the library makes and looks into it.
public struct Batch: Sendable {
    enum Kind: Sendable {
        case insert(String, BatchRows)
        case update(FetchRequest, [String: PropertyValue])
        case delete(FetchRequest)
        case deleteObjects([ManagedObjectID])
    }

    let kind: Kind
}

/// A batch with its names looked up: what one transaction after the other needs to know.
struct ResolvedBatch: Sendable {
    /// What is done with each object.
    enum Action: Sendable {
        case insert(BatchRows)
        /// By position in the canonical order of the entity.
        case update([(position: Int, value: PropertyValue)])
        case delete
    }

    let entity: ManagedObjectModel.Entity
    let action: Action
    /// Which objects; nil of an insert, and where they are named.
    let request: FetchRequest?
    /// The objects that are named, sorted.
    let named: [RowID]
    /// The predicate to look at once more when an object is written; nil for none.
    let condition: PredicateEvaluator?

    /// Looks names up.
    ///
    /// - Throws: ``CoordinatorError``: `malformed` or `invalidPredicate`.
    init(_ batch: Batch, _ coordinator: PersistentStoreCoordinator) throws {
        let (model, cluster) = (coordinator.model, coordinator.cluster)
        let wall = coordinator.options.wallMilliseconds
        switch batch.kind {
        case .insert(let name, let rows):
            entity = try Self.entity(name, model)
            guard !entity.isAbstract else {
                throw CoordinatorError(
                    .malformed, "\(entity.name) is abstract: insert a sub-entity.")
            }
            action = .insert(rows)
            request = nil
            named = []
        case .update(let request, let values):
            entity = try Self.entity(request.entityName, model)
            guard !values.isEmpty else {
                throw CoordinatorError(.malformed, "The update assigns nothing.")
            }
            action = .update(try Self.values(values, of: entity))
            self.request = request
            named = []
        case .delete(let request):
            entity = try Self.entity(request.entityName, model)
            guard request.propertiesToGroupBy.isEmpty, request.havingPredicate == nil,
                !request.returnsDistinctResults
            else {
                throw CoordinatorError(
                    .malformed, "A batch delete takes objects, and not groups or distinct values.")
            }
            action = .delete
            self.request = request
            named = []
        case .deleteObjects(let ids):
            guard let first = ids.first else {
                throw CoordinatorError(.malformed, "The delete names no object.")
            }
            if let other = ids.first(where: { $0.entityName != first.entityName }) {
                throw CoordinatorError(
                    .malformed,
                    "A batch delete takes objects of one entity, and \(first) and \(other) are of "
                        + "two.")
            }
            if let temporary = ids.first(where: \.isTemporaryID) {
                throw CoordinatorError(.malformed, "\(temporary) has not been saved.")
            }
            entity = try Self.entity(first.entityName, model)
            action = .delete
            request = nil
            named = Set(ids.map(\.row)).sorted()
        }
        guard let predicate = request?.predicate else {
            condition = nil
            return
        }
        do {
            let evaluator = try PredicateEvaluator(
                predicate, entity: entity, model: model, cluster: cluster,
                now: { Int64(clamping: wall()) })
            // What it says of other objects may be the work of this request's earlier transactions.
            condition = evaluator.isOwn ? evaluator : nil
        } catch {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        }
    }

    private static func entity(
        _ name: String, _ model: ManagedObjectModel
    ) throws -> ManagedObjectModel.Entity {
        guard let entity = model.entity(named: name) else {
            throw CoordinatorError(.malformed, "There is no entity \(name).")
        }
        return entity
    }

    /// Values by position, in order of the properties' names.
    static func values(
        _ values: [String: PropertyValue], of entity: ManagedObjectModel.Entity
    ) throws -> [(position: Int, value: PropertyValue)] {
        try values.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map {
            name, value in
            guard let position = entity.position(of: name) else {
                let isToMany = entity.relationship(named: name) != nil
                throw CoordinatorError(
                    .malformed,
                    isToMany
                        ? "\(entity.name).\(name) is kept at its other side: change the objects there."
                        : "\(entity.name) has no stored property \(name).")
            }
            guard fits(value, entity.properties[position].content) else {
                throw CoordinatorError(
                    .validationFailed, "A value does not fit.",
                    failures: [
                        ValidationFailure(
                            object: entity.name, property: name, code: .wrongType,
                            message: "\(name) has a value of another type, or out of its range.")
                    ])
            }
            return (position, value)
        }
    }

    /// Values of the same properties as another row's, in its order; nil where they are others, or do not
    /// fit.
    static func values(
        _ row: [String: PropertyValue], of entity: ManagedObjectModel.Entity,
        like form: [(name: String, position: Int)]
    ) -> [(position: Int, value: PropertyValue)]? {
        guard row.count == form.count else { return nil }
        var values: [(position: Int, value: PropertyValue)] = []
        values.reserveCapacity(form.count)
        for (name, position) in form {
            guard let value = row[name], fits(value, entity.properties[position].content) else {
                return nil
            }
            values.append((position, value))
        }
        return values
    }

    private static func fits(
        _ value: PropertyValue, _ content: ManagedObjectModel.Property.Content
    ) -> Bool {
        switch (content, value) {
        case (_, .null), (.toOne, .reference): true
        case (.toOne, _): false
        case (.attribute(let type), _): Validation.fits(value, type: type)
        }
    }
}
