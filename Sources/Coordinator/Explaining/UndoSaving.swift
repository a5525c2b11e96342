import Merge

extension PersistentStoreCoordinator {
    /// Saves what a plan says, if nothing of it has moved on since the plan was made.
    ///
    /// - Parameters:
    ///   - plan: see ``StoreReader/undoing(_:force:limit:)``.
    ///   - who: who undoes it, where and why.
    ///   - isBulk: whether it may write more than 20,000 objects.
    /// - Throws: ``CoordinatorError``: `mergeConflict` where something has moved on, and as a save does.
    package func undo(
        _ plan: UndoPlan, by who: SaveDescription, isBulk: Bool = false
    ) async throws -> SaveResult {
        let request = SaveRequest(operations: plan.operations(model), by: who, isBulk: isBulk)
        return try await saveWaiting(size: request.size) { engine in
            try engine.check(plan)
            return request
        }
    }
}

extension StoreEngine {
    /// Refuses a plan that rows without a version, or links, have moved on from.
    fileprivate func check(_ plan: UndoPlan) throws {
        let view = StoreView(session)
        for restored in plan.restored {
            let id = restored.object
            if restored.kind == .insert {
                let loaded = try view.load(view.table(id.entityName), id.row)
                let deletes = loaded?.state.existence.siblings.map(\.dot) ?? []
                let isSame = restored.deletes.isEmpty || Set(deletes) == restored.deletes
                guard loaded?.isAlive != true, isSame else { throw Self.movedOn(id) }
            }
            for known in restored.links {
                guard let link = view.model.link(named: known.name) else { continue }
                let register = try view.loadLink(link, source: known.source, target: known.target)
                guard LinkCoding.visible(register, policy: link.policy)?.dot == known.dot else {
                    throw Self.movedOn(id)
                }
            }
        }
    }

    private static func movedOn(_ id: ManagedObjectID) -> CoordinatorError {
        CoordinatorError(
            .mergeConflict,
            "\(id.entityName)/\(id.row) was written while the undo was planned; ask for it again.")
    }
}
