import Merge

/// Asks the objects of a save whether they are valid.
///
/// The store checks the model's rules itself. So an object without a class of its own is only asked where
/// the store does not see the save: in a context with a parent, and where others have found mistakes, so
/// that all are listed.
struct ContextValidation: ContextPart {
    let context: ManagedObjectContext

    /// - Throws: ``CoordinatorError`` `validationFailed`, or `deleteDenied`, with all mistakes; what else
    ///   a hook throws, at once.
    func validate() throws {
        var failures: [ValidationFailure] = []
        if context.parent != nil || graph.hasSubclasses {
            try check(
                where: { context.parent != nil || type(of: $0) != ManagedObject.self }, &failures)
        }
        // Hooks may have changed values.
        context.processPendingChanges()
        if failures.isEmpty { return }
        if context.parent == nil {
            try check(where: { type(of: $0) == ManagedObject.self }, &failures)
        }
        throw CoordinatorError.validation(failures)
    }

    private func check(
        where isAsked: (ManagedObject) -> Bool, _ failures: inout [ValidationFailure]
    ) throws {
        for objects in [graph.inserted, graph.updated, graph.deleted] {
            for object in objects.values.filter(isAsked).sorted(by: { $0.objectID < $1.objectID }) {
                try check(object, &failures)
            }
        }
    }

    private func check(
        _ object: ManagedObject, _ failures: inout [ValidationFailure]
    ) throws {
        func note(_ failure: ValidationFailure) {
            var failure = failure
            if failure.object.isEmpty { failure.object = object.nameInFailures }
            failures.append(failure)
        }
        do {
            switch object.change {
            case .inserted: try object.validateForInsert()
            case .updated: try object.validateForUpdate()
            case .deleted: try object.validateForDelete()
            case .none: break
            }
        } catch let failure as ValidationFailure {
            note(failure)
        } catch let error as CoordinatorError where !error.failures.isEmpty {
            error.failures.forEach(note)
        }
    }
}

extension CoordinatorError {
    /// The refusal of a save for mistakes, or for a delete that a rule denies.
    static func validation(_ failures: [ValidationFailure]) -> CoordinatorError {
        let isDenied = failures.contains { $0.code == .relationshipDeniedDelete }
        return CoordinatorError(
            isDenied ? .deleteDenied : .validationFailed,
            failures.count == 1
                ? failures[0].message
                : "\(failures.count) \(isDenied ? "deletes and values" : "values") are not valid.",
            failures: failures)
    }
}

extension ManagedObject {
    /// The object as a save names it where it fails.
    var nameInFailures: String {
        guard !objectID.isTemporaryID, let context = managedObjectContext else { return "\(row)" }
        return objectID.uriRepresentation(cluster: context.persistentStoreCoordinator.cluster)
    }

    func checkModel(_ value: PropertyValue, forKey key: String) throws {
        // Nearly always it is the property that the save is at, and has no bounds.
        if let asked = managedObjectContext?.graph.validated, asked.entity === entity,
            !value.isNull, entity.properties[asked.position].name == key,
            Validation.fits(value, type: asked.type)
        {
            return
        }
        guard let position = entity.position(of: key),
            let failure = ValueValidation.failure(
                value, of: entity.properties[position], object: nameInFailures)
        else { return }
        throw failure
    }

    func validateProperties(all: Bool) throws {
        guard let context = usableContext() else { return }
        let properties = entity.properties
        let positions = all ? Array(properties.indices) : changedPositions()
        let types = context.persistentStoreCoordinator.catalog.table(entity.name).plainTypes
        let mayBeNullified = !nullified.isEmpty
        defer { context.graph.validated = nil }
        var failures: [ValidationFailure] = []
        for position in positions where position < values.count {
            if mayBeNullified, context.saving.isNullified(position, of: self) { continue }
            let given = values[position]
            var value = given
            context.graph.validated = types[position].map { (entity, position, $0) }
            do {
                try validateValue(&value, forKey: properties[position].name)
            } catch let failure as ValidationFailure {
                failures.append(failure)
                continue
            }
            if value != given { write(value, position) }
        }
        if let first = failures.first {
            throw failures.count == 1 ? first : CoordinatorError.validation(failures) as any Error
        }
    }

    func checkDeleteRules() throws {
        guard let context = usableContext() else { return }
        var failures: [ValidationFailure] = []
        for relationship in entity.relationships
        where relationship.description.deleteRule == .deny {
            let count =
                if case .column(let position) = relationship.storage {
                    !values[position].isNull
                        && !context.saving.leadsToDeleted(values[position], at: position, of: self)
                        ? 1 : 0
                } else { context.relationshipTracker.members(of: self, relationship).count }
            if count == 0 { continue }
            failures.append(
                ValidationFailure(
                    object: nameInFailures, property: relationship.name,
                    code: .relationshipDeniedDelete,
                    message: "\(entity.name)/\(row) cannot be deleted while its "
                        + "\(relationship.name) has \(count == 1 ? "an object" : "\(count) objects")."
                ))
        }
        if let first = failures.first {
            throw failures.count == 1 ? first : CoordinatorError.validation(failures) as any Error
        }
    }
}
