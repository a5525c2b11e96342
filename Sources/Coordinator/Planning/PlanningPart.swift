import Merge

/// A part of planning: it reads through a view, which has no way to write.
protocol PlanningPart {
    var view: StoreView { get }
}

extension PlanningPart {
    var model: ManagedObjectModel { view.model }
    var history: ModelHistory { view.history }
    var tables: [String: EntityTable] { view.tables }
    var state: StoreSession.State { _read { yield view.state } }

    func table(_ entity: String) -> EntityTable { view.table(entity) }

    /// How a failure names an object: by its URI, or, where it is yet to be inserted, as its request does.
    func told(_ row: RowID, _ entity: String) -> String {
        guard row.rawValue > 0 else { return "\(row)" }
        return ManagedObjectID(entityName: entity, row: row).uriRepresentation(
            cluster: view.cluster)
    }

    func told(_ planned: SavePlan.Row) -> String { told(planned.name, planned.table.entity.name) }

    // MARK: The other parts

    var relationshipPlanner: RelationshipPlanner { RelationshipPlanner(view: view) }
    var premisePlanner: PremisePlanner { PremisePlanner(view: view) }
    var deleteRules: DeleteRules { DeleteRules(view: view) }
    var uniquenessPlanner: UniquenessPlanner { UniquenessPlanner(view: view) }
    var validator: Validator { Validator(view: view) }
    var saveDiscards: SaveDiscards { SaveDiscards(view: view) }
    var changeMaker: ChangeMaker { ChangeMaker(view: view) }
}
