import Merge

/// Saves a context's changes, and asks its policy about the conflicts.
struct PolicySave: ContextPart {
    let context: ManagedObjectContext

    /// - Returns: the answer; nil where there was nothing to save.
    /// - Throws: ``CoordinatorError``, with the context's own IDs; what the policy throws.
    func save(_ options: SaveOptions) throws -> SaveResult? {
        let policy = context.mergePolicy
        if policy.isPlain { return try attempt(options, by: policy.merge, SettledConflicts()) }
        graph.settled = SettledConflicts()
        defer { graph.settled = nil }
        var told = Set<MergeConflict>()
        var toldOfKeys = Set<ConstraintConflict>()
        for number in 1... {
            do {
                return try attempt(options, by: .error, graph.settled ?? SettledConflicts())
            } catch let error as CoordinatorError {
                let conflicts = SaveConflicts(error)
                // What an attempt says is all that it met, so a single old conflict stands for good.
                guard !conflicts.isEmpty, number < ContextMergePolicy.attempts,
                    told.isDisjoint(with: conflicts.optimisticLocking),
                    toldOfKeys.isDisjoint(with: conflicts.constraint)
                else { throw error }
                told.formUnion(conflicts.optimisticLocking)
                toldOfKeys.formUnion(conflicts.constraint)
                try policy.resolve(mergeConflicts: conflicts, in: context)
            }
            try takeChanges()
        }
        return nil
    }

    private func attempt(
        _ options: SaveOptions, by policy: MergePolicy, _ settled: SettledConflicts
    ) throws -> SaveResult? {
        let request = context.saving.saveRequest(options, policy: policy, settled)
        if request.operations.isEmpty { return nil }
        do { return try persistentStoreCoordinator.save(request) } catch let error
            as CoordinatorError
        { throw context.saving.named(error) }
    }

    /// Makes what the policy changed ready to be saved.
    private func takeChanges() throws {
        context.processPendingChanges()
        deletes.propagateDeletes()
        try objectRegistry.throwFaultingError()
        try ContextValidation(context: context).validate()
    }

    // MARK: Settling

    /// Lets the next attempt settle conflicts of versions as a policy of Core Data does.
    func settle(_ conflicts: [MergeConflict], by policy: MergePolicy) throws {
        requireAsked()
        if policy.leavesUnresolved, let first = conflicts.first {
            throw CoordinatorError.movedOn(first, of: conflicts)
        }
        for conflict in conflicts { graph.settled?.versions[conflict.object.row] = policy }
    }

    /// The same of conflicts of keys.
    func settle(_ conflicts: [ConstraintConflict], by policy: MergePolicy) throws {
        requireAsked()
        if policy.leavesUnresolved, let first = conflicts.first {
            throw CoordinatorError.keyTaken(first, of: conflicts)
        }
        for object in conflicts.flatMap(\.conflictingObjects) {
            graph.settled?.keys[object.row] = policy
        }
    }

    private func requireAsked() {
        context.confine("resolve of a merge policy", at: SourcePlace(#fileID, #line))
        require(
            graph.settled != nil,
            "A merge policy's resolve(…) was called outside a save: only a save that meets conflicts may "
                + "call it.", at: SourcePlace(#fileID, #line))
    }
}

extension SaveConflicts {
    /// The conflicts that made an attempt fail; none where something else did.
    init(_ error: CoordinatorError) {
        optimisticLocking = error.code == .mergeConflict ? error.conflicts : []
        constraint = error.code == .constraintConflict ? error.constraintConflicts : []
    }
}

/// What the policy of a context handed to Core Data's policies, by the rows of the save.
struct SettledConflicts: Sendable {
    /// Where the row has another version by now.
    var versions: [RowID: MergePolicy] = [:]
    /// Where other rows have its key.
    var keys: [RowID: MergePolicy] = [:]

    var isEmpty: Bool { versions.isEmpty && keys.isEmpty }

    /// The same under the request's numbers for inserted rows.
    func renamed(_ numbers: [RowID: RowID]) -> SettledConflicts {
        var result = self
        result.keys = [:]
        for (row, policy) in keys { result.keys[numbers[row] ?? row] = policy }
        return result
    }
}

extension SaveRequest {
    /// The request as it is for one of its rows, known by several names, that has moved on.
    func forVersion(of row: RowID, _ other: RowID) -> SaveRequest {
        if settled.versions.isEmpty { return self }
        return settling(by: settled.versions[row] ?? settled.versions[other])
    }

    /// The request as it is for rows that would have one key: settled if all are.
    func forKey(of rows: [RowID]) -> SaveRequest {
        if settled.keys.isEmpty { return self }
        let policies = rows.map { settled.keys[$0] }
        return settling(by: policies.contains(nil) ? nil : policies.first ?? nil)
    }

    private func settling(by policy: MergePolicy?) -> SaveRequest {
        guard let policy else { return self }
        var result = self
        result.mergePolicy = policy
        return result
    }
}
