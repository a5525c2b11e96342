import Merge

/// Saves a context's changes, and asks its policy about the conflicts.
struct PolicySave: ContextPart {
    let context: ManagedObjectContext

    /// - Returns: the answer; nil where there was nothing to save.
    /// - Throws: ``CoordinatorError``, with the context's own IDs; what the policy throws.
    func save(_ options: SaveOptions) throws -> SaveResult? {
        let policy = context.mergePolicy
        if policy.isPlain { return try attempt(options, by: policy.merge, SettledConflicts()) }
        var settled = SettledConflicts()
        var told = Set<MergeConflict>()
        var toldOfKeys = Set<ConstraintConflict>()
        for number in 1... {
            do {
                return try attempt(options, by: .error, settled)
            } catch let error as CoordinatorError {
                let conflicts = SaveConflicts(error)
                // What an attempt says is all that it met, so a single old conflict stands for good.
                guard !conflicts.isEmpty, number < ContextMergePolicy.attempts,
                    told.isDisjoint(with: conflicts.optimisticLocking),
                    toldOfKeys.isDisjoint(with: conflicts.constraint)
                else { throw error }
                told.formUnion(conflicts.optimisticLocking)
                toldOfKeys.formUnion(conflicts.constraint)
                settled = try ask(policy, about: conflicts, settled)
            }
            try takeChanges()
        }
        return nil
    }

    /// - Returns: what is settled, with what the policy hands on now.
    private func ask(
        _ policy: ContextMergePolicy, about conflicts: SaveConflicts, _ settled: SettledConflicts
    ) throws -> SettledConflicts {
        graph.settled = settled
        defer { graph.settled = nil }
        try policy.resolve(mergeConflicts: conflicts, in: context)
        return graph.settled ?? settled
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
        try context.saving.callWillSave()
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
        for conflict in conflicts {
            graph.settled?.versions[conflict.object.row] = (conflict.newVersion, policy)
        }
    }

    /// The same of conflicts of keys.
    func settle(_ conflicts: [ConstraintConflict], by policy: MergePolicy) throws {
        requireAsked()
        if policy.leavesUnresolved, let first = conflicts.first {
            throw CoordinatorError.keyTaken(first, of: conflicts)
        }
        for conflict in conflicts {
            for object in conflict.conflictingObjects {
                graph.settled?.keys[object.row, default: []].append((conflict, policy))
            }
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

/// What the policy of a context handed to Core Data's policies, by the rows of the save. It holds for the
/// conflicts that the policy was told of: what others have saved since is another one.
struct SettledConflicts: Sendable {
    /// Where the row had another version, which is nil if it was gone.
    var versions: [RowID: (newVersion: RowVersion?, policy: MergePolicy)] = [:]
    /// Where other rows had its key.
    var keys: [RowID: [(conflict: ConstraintConflict, policy: MergePolicy)]] = [:]

    var isEmpty: Bool { versions.isEmpty && keys.isEmpty }

    /// The same under the request's numbers for inserted rows. Those that are not inserted any more are
    /// left out, as others have their numbers.
    func renamed(_ numbers: [RowID: RowID]) -> SettledConflicts {
        var result = self
        result.keys = [:]
        for (row, entries) in keys {
            if let number = numbers[row] ?? (row.rawValue > 0 ? row : nil) {
                result.keys[number] = entries
            }
        }
        return result
    }

    /// The policy for a row that has moved on, known by two names; nil where none was asked about that.
    func policy(
        forVersion version: RowVersion?, of row: RowID, _ other: RowID
    ) -> MergePolicy? {
        guard let known = versions[row] ?? versions[other], known.newVersion == version else {
            return nil
        }
        return known.policy
    }

    /// The policy for a row that would have a key; nil where none was asked about that.
    ///
    /// - Parameter holder: the row of the store that has it.
    func policy(
        forKey values: [(name: String, value: PropertyValue)], of row: RowID, holder: RowID?
    ) -> MergePolicy? {
        keys[row]?.last { entry in
            entry.conflict.databaseObject?.row == holder
                && values.allSatisfy { entry.conflict.constraintValues[$0.name] == $0.value }
        }?.policy
    }
}

extension SaveRequest {
    /// The request with another policy, where there is one.
    func settling(by policy: MergePolicy?) -> SaveRequest {
        guard let policy else { return self }
        var result = self
        result.mergePolicy = policy
        return result
    }

    /// The request as it is for a row that has moved on, known by two names.
    func forVersion(of row: RowID, _ other: RowID, _ loaded: LoadedRow?) -> SaveRequest {
        if settled.versions.isEmpty { return self }
        let version = loaded.flatMap { $0.isAlive ? $0.version : nil }
        return settling(by: settled.policy(forVersion: version, of: row, other))
    }
}
