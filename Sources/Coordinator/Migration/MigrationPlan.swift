import Merge

/// How a store gets from the model it has to another: worked out from the models alone, before
/// anything is written.
struct MigrationPlan {
    /// What becomes of one table of a root entity, by names of columns.
    struct Table {
        let old: ManagedObjectModel.Entity
        let new: ManagedObjectModel.Entity
        var dropped: [String] = []
        var renamed: [(from: String, to: String)] = []
        var added: [ManagedObjectModel.Property] = []
        /// Entities that are gone, with their rows.
        var removedEntities: [String] = []
        /// Whether rows of several entities are told apart from now on, or not any more.
        var sharing: (old: Bool, new: Bool) { (old.sharesTable, new.sharesTable) }
    }

    let old: ManagedObjectModel
    let new: ManagedObjectModel
    let mapping: ModelMapping
    let differences: [ModelDifference]
    var tables: [Table] = []
    /// Root entities that are gone.
    var removedRoots: [String] = []
    var renamedEntities: [(from: String, to: String)] = []
    var removedEntities: [String] = []
    var renamedLinks: [(from: String, to: String)] = []
    var removedLinks: [String] = []

    /// - Parameters:
    ///   - former: all other models that the store has had or knows.
    ///   - standIns: what was settled to stand for missing values before.
    /// - Throws: ``CoordinatorError`` with `mappingNotInferable`, which names every obstacle.
    init(
        from old: ManagedObjectModel, to new: ManagedObjectModel,
        former: [ManagedObjectModel], standIns: StoreModels.StandIns
    ) throws {
        self.old = old
        self.new = new
        differences = ModelDifference.between(old, new)
        mapping = ModelMapping(from: old, to: new) { _, _ in nil }
        var obstacles = differences.compactMap { difference in
            difference.obstacle.map { "\(difference.place): \($0)" }
        }
        obstacles += Self.obstacles(between: former, old, new)
        if obstacles.isEmpty {
            planTables(&obstacles)
            planNames()
            obstacles += changedStandIns(standIns, former)
        }
        guard obstacles.isEmpty else {
            var seen = Set<String>()
            throw CoordinatorError(
                .mappingNotInferable,
                "The store cannot be migrated to this model by what can be inferred, and is as it "
                    + "was: "
                    + obstacles.filter { seen.insert($0).inserted }.joined(separator: "; ")
                    + ".")
        }
    }

    /// What keeps a model from being one that a store of another model may learn of: its
    /// transactions could not be applied.
    static func obstacles(
        from other: ManagedObjectModel, to model: ManagedObjectModel
    ) -> [String] {
        ModelDifference.between(other, model).compactMap { difference in
            difference.obstacle.map { "\(difference.place): \($0)" }
        }
    }

    /// What other models keep from being reached: each of them must lead to the new one directly,
    /// for its transactions may still arrive, and what was taken away must not come back, for
    /// nodes that went another way still have its values.
    private static func obstacles(
        between former: [ManagedObjectModel], _ old: ManagedObjectModel,
        _ new: ManagedObjectModel
    ) -> [String] {
        var result: [String] = []
        for model in former {
            result += obstacles(from: model, to: new)
            for entity in model.entities {
                let identity = model.identity(ofEntity: entity.name)
                guard let again = new.entity(identity: identity) else { continue }
                guard let between = old.entity(identity: identity) else {
                    result.append(
                        "\(again.name): it was taken away before, and cannot come back; give it "
                            + "another renamingIdentifier")
                    continue
                }
                let gone = Set(entity.identities.values).subtracting(between.identities.values)
                for (name, identity) in again.identities.sorted(by: { $0.key < $1.key })
                where gone.contains(identity) {
                    result.append(
                        "\(again.name).\(name): it was taken away before, and cannot come back; "
                            + "give it another renamingIdentifier")
                }
            }
        }
        return result
    }

    // MARK: Tables

    private mutating func planTables(_ obstacles: inout [String]) {
        for root in old.entities where root.parent == nil {
            guard let target = mapping.entities[root.name]?.target else {
                removedRoots.append(root.name)
                continue
            }
            var table = Table(old: root, new: target)
            table.removedEntities = root.familyNames.filter { mapping.entities[$0] == nil }
            plan(&table, &obstacles)
            tables.append(table)
        }
    }

    private func plan(_ table: inout Table, _ obstacles: inout [String]) {
        let before = Self.columns(old, table.old)
        let after = Self.columns(new, table.new)
        var kept: [String: String] = [:]
        for column in before {
            let names = Set(
                table.old.familyNames.compactMap { mapping.entities[$0]?.names[column.name] })
            guard let name = names.first else {
                table.dropped.append(column.name)
                continue
            }
            guard names.count == 1, kept.updateValue(column.name, forKey: name) == nil,
                let here = after.first(where: { $0.name == name }), here.type == column.type
            else {
                obstacles.append(
                    "\(table.new.name).\(name): entities that share a table have it otherwise")
                continue
            }
            if name != column.name { table.renamed.append((column.name, name)) }
        }
        let family = table.new.familyNames.compactMap { new.entity(named: $0) }
        for column in after where kept[column.name] == nil {
            let property = family.lazy.compactMap { entity in
                entity.position(of: column.name).map { entity.properties[$0] }
            }.first
            if let property { table.added.append(property) }
        }
    }

    private static func columns(
        _ model: ManagedObjectModel, _ root: ManagedObjectModel.Entity
    ) -> [(name: String, type: String)] {
        StoreLayout.columns(of: root.familyNames.compactMap { model.entity(named: $0) })
    }

    private mutating func planNames() {
        for entity in old.entities {
            if let target = mapping.entities[entity.name]?.target {
                if target.name != entity.name {
                    renamedEntities.append((entity.name, target.name))
                }
            } else {
                removedEntities.append(entity.name)
            }
        }
        for link in old.links {
            if let name = mapping.links[link.name] ?? nil {
                if name != link.name { renamedLinks.append((link.name, name)) }
            } else {
                removedLinks.append(link.name)
            }
        }
    }

    /// What was settled to stand for missing values stays: nodes that migrate in one step and
    /// those that migrate in two must come to the same rows.
    private func changedStandIns(
        _ standIns: StoreModels.StandIns, _ former: [ManagedObjectModel]
    ) -> [String] {
        var result: [String] = []
        for entity in old.entities {
            guard let mapped = mapping.entities[entity.name] else { continue }
            for property in entity.properties {
                guard let settled = standIns["\(entity.root).\(property.name)"],
                    let name = mapped.names[property.name],
                    let position = mapped.target.position(of: name),
                    mapped.target.properties[position].defaultValue != settled
                else { continue }
                result.append(
                    "\(mapped.target.name).\(name): its default stands for values that former "
                        + "models did not have, so it cannot change together with the model; "
                        + "migrate first and change it afterwards")
            }
        }
        return result
    }

    // MARK: What has to be done

    /// Whether names or places of what there is change, so that indexes and the conflict journal
    /// are to be made anew.
    var isReshaping: Bool {
        !removedEntities.isEmpty || !renamedEntities.isEmpty || !renamedLinks.isEmpty
            || !removedLinks.isEmpty
            || tables.contains { !$0.dropped.isEmpty || !$0.renamed.isEmpty }
    }

    /// The entities whose rows get values in the place of null, with the positions.
    var substituted: [(entity: ManagedObjectModel.Entity, values: [Int: PropertyValue])] {
        mapping.byTarget.values.filter { !$0.substitutes.isEmpty }
            .map { ($0.target, $0.substitutes) }.sorted { $0.entity.name < $1.entity.name }
    }

    /// Whether an entity that stays has another policy: what is no register's, but that of several
    /// rows together (groups, claims of one-to-ones), never collapses and follows the present
    /// model, so it is to be settled anew (MODEL.md, P14).
    var hasOtherPolicies: Bool {
        mapping.byTarget.values.contains { $0.policies != $0.target.policies }
    }

    /// Whether the claims of one-to-ones are to be settled anew: another stands by the policy, or
    /// the one that stood is gone.
    var hasOtherClaims: Bool {
        hasOtherPolicies || tables.contains { !$0.removedEntities.isEmpty }
    }

    /// Whether the digest changes though no transaction is applied. A column that is added and
    /// shows nothing changes none, but in row-grained entities, whose writes are of all columns.
    var changesDigest: Bool {
        isReshaping || !substituted.isEmpty
            || mapping.byTarget.values.contains { entity in
                entity.absent.values.contains { !$0.isNull }
                    || (!entity.absent.isEmpty && entity.target.policies.isRowGrained)
            }
    }
}
