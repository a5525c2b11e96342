import Merge

/// How a store gets from the model it has to another: worked out from the models alone, before
/// anything is written.
struct MigrationPlan {
    /// The change of one table of a root entity, by names of columns.
    struct Table {
        let old: ManagedObjectModel.Entity
        let new: ManagedObjectModel.Entity
        /// The former names of the columns that stay, by the present ones.
        var kept: [String: String] = [:]
        var dropped: [String] = []
        var renamed: [(from: String, to: String)] = []
        /// The columns that are new, with what the rows there are show in them.
        var added: [(column: String, value: PropertyValue)] = []
        /// Entities that are gone, with their rows.
        var removedEntities: [String] = []
        /// Whether the table holds several entities, before and after the migration.
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
    /// Links of several entities that go into one table: what each of them had is pulled up.
    var joinedLinks: [(from: String, to: String)] = []
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
            obstacles += otherStandIns(than: standIns, former)
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

    /// The reasons why a store of another model may not learn of a model: its transactions could
    /// not be applied.
    static func obstacles(
        from other: ManagedObjectModel, to model: ManagedObjectModel
    ) -> [String] {
        ModelDifference.between(other, model).compactMap { difference in
            difference.obstacle.map { "\(difference.place): \($0)" }
        }
    }

    /// The reasons for which other models keep this one from being reached. Each of them must lead
    /// to the new one directly, because its transactions may still arrive. And a removed property
    /// must not come back, because nodes that went another way still have its values.
    private static func obstacles(
        between former: [ManagedObjectModel], _ old: ManagedObjectModel,
        _ new: ManagedObjectModel
    ) -> [String] {
        var result: [String] = []
        for model in former {
            result += obstacles(from: model, to: new)
            result += linkObstacles(from: model, by: old, to: new)
            for entity in model.entities {
                let identity = model.identity(ofEntity: entity.name)
                guard let again = new.entity(identity: identity) else { continue }
                guard let between = old.entity(identity: identity) else {
                    result.append(
                        "\(again.name): it was taken away before, and cannot come back; give it "
                            + "another name")
                    continue
                }
                let stored = again.storedIdentities.sorted { $0.key < $1.key }
                let gone = Set(entity.storedIdentities.values)
                    .subtracting(between.storedIdentities.values)
                for (name, identity) in stored where gone.contains(identity) {
                    result.append(
                        "\(again.name).\(name): it was taken away before, and cannot come back; "
                            + "give it another name")
                }
                let nullable = entity.optionalIdentities
                    .subtracting(between.optionalIdentities)
                    .intersection(between.storedIdentities.values)
                for (name, identity) in stored
                where nullable.contains(identity) && again.optionalIdentities.contains(identity) {
                    result.append(
                        "\(again.name).\(name): it was optional and then mandatory, and cannot "
                            + "be optional again: where the model between is skipped nothing "
                            + "would stand for its default")
                }
            }
        }
        return result
    }

    /// Links of an entity that one model has taken away cannot come back in those that another
    /// keeps for what it inherited from.
    private static func linkObstacles(
        from former: ManagedObjectModel, by old: ManagedObjectModel, to new: ManagedObjectModel
    ) -> [String] {
        let between = ModelMapping(from: former, to: old) { _, _ in nil }.links
        let direct = ModelMapping(from: former, to: new) { _, _ in nil }.links
        return former.links.compactMap { link in
            guard new.entity(identity: former.identity(ofEntity: link.source)) == nil,
                let name = direct[link.name] ?? nil, (between[link.name] ?? nil) == nil
            else { return nil }
            return "\(name): objects of \(link.name) were taken away before, and cannot come back; "
                + "give it another name"
        }
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
        for column in before {
            let names = Set(
                table.old.familyNames.compactMap { mapping.entities[$0]?.names[column.name] })
            guard let name = names.first else {
                table.dropped.append(column.name)
                continue
            }
            guard names.count == 1, table.kept.updateValue(column.name, forKey: name) == nil,
                let here = after.first(where: { $0.name == name }), here.type == column.type
            else {
                obstacles.append(
                    "\(table.new.name).\(name): entities that share a table have it otherwise")
                continue
            }
            if name != column.name { table.renamed.append((column.name, name)) }
        }
        // Of entities that there were: those that are new have no rows, and defaults of their own.
        let family = table.new.familyNames.compactMap { mapping.byTarget[$0] }
        for column in after where table.kept[column.name] == nil {
            let value = family.lazy.compactMap { entity in
                entity.target.position(of: column.name).flatMap { entity.absent[$0] }
            }.first
            table.added.append((column.name, value ?? .null))
        }
    }

    /// The columns that rows are merged by: without those of derived attributes.
    private static func columns(
        _ model: ManagedObjectModel, _ root: ManagedObjectModel.Entity
    ) -> [(name: String, type: String)] {
        let family = root.familyNames.compactMap { model.entity(named: $0) }
        let derived = Set(family.flatMap(\.derivedAttributes).map(\.name))
        return StoreLayout.columns(of: family).filter { !derived.contains($0.name) }
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
        var taken = Set<String>()
        for link in old.links {
            if let name = mapping.links[link.name] ?? nil {
                if !taken.insert(name).inserted {
                    joinedLinks.append((link.name, name))
                } else if name != link.name {
                    renamedLinks.append((link.name, name))
                }
            } else {
                removedLinks.append(link.name)
            }
        }
    }

    /// The values that stand for a column's missing ones. They are one value, whichever entity of
    /// the hierarchy lacks it and by whichever model, and a settled value stays: nodes that migrate
    /// in one step and those that migrate in two must come to the same rows.
    private func otherStandIns(
        than standIns: StoreModels.StandIns, _ former: [ManagedObjectModel]
    ) -> [String] {
        var settled: [String: PropertyValue] = [:]
        for table in tables {
            let family = table.new.familyNames.compactMap { new.entity(named: $0) }
            for (name, column) in table.kept {
                let value = standIns["\(table.old.name).\(column)"]
                let isMandatory = family.allSatisfy { entity in
                    entity.position(of: name).map { !entity.properties[$0].isOptional } ?? true
                }
                // Null gives way: what becomes mandatory shows the default for every null.
                if isMandatory, value?.isNull ?? false { continue }
                settled["\(table.new.name).\(name)"] = value
            }
        }
        var result: [String] = []
        var isFirst = Set<String>()
        for mapping in [mapping] + former.map({ ModelMapping(from: $0, to: new) { _, _ in nil } }) {
            for entity in mapping.byTarget.values.sorted(by: { $0.target.name < $1.target.name }) {
                let values = entity.absent.merging(entity.substitutes) { first, _ in first }
                for (position, value) in values.sorted(by: { $0.key < $1.key }) {
                    let property = entity.target.properties[position]
                    if property.isReference { continue }
                    let column = "\(entity.target.root).\(property.name)"
                    guard let other = settled[column] else {
                        settled[column] = value
                        isFirst.insert(column)
                        continue
                    }
                    if other == value { continue }
                    result.append(
                        "\(entity.target.name).\(property.name): its default "
                            + "\(AttributeDescription.text(of: value)) stands for values that "
                            + "former models did not have, and must be "
                            + "\(AttributeDescription.text(of: other)), the one "
                            + (isFirst.contains(column)
                                ? "of the others that share a table with it"
                                : "that was settled then; to change what new objects get, give it "
                                    + "that as formerDefault"))
                }
            }
        }
        return result
    }

    // MARK: What has to be done

    /// Whether existing names or places change, so that indexes and the conflict journal must be
    /// made again.
    var isReshaping: Bool {
        !removedEntities.isEmpty || !renamedEntities.isEmpty || !renamedLinks.isEmpty
            || !joinedLinks.isEmpty || !removedLinks.isEmpty
            || tables.contains { !$0.renamed.isEmpty } || losesProperties
    }

    /// Whether rows lose a property: with its column, or where that stays for those of other entities
    /// of the hierarchy, to which it was pushed down.
    private var losesProperties: Bool {
        mapping.entities.values.contains { $0.names.count < $0.sourceNames.count }
    }

    /// The entities whose rows get values in the place of null, with the positions.
    var substituted: [(entity: ManagedObjectModel.Entity, values: [Int: PropertyValue])] {
        mapping.byTarget.values.filter { !$0.substitutes.isEmpty }
            .map { ($0.target, $0.substitutes) }.sorted { $0.entity.name < $1.entity.name }
    }

    /// Whether an entity that stays has another policy. Outcomes that no single register holds, but
    /// several rows together (groups, claims of one-to-ones), never collapse and follow the present
    /// model. So they must be settled again (MODEL.md, P14).
    var hasOtherPolicies: Bool {
        mapping.byTarget.values.contains { $0.policies != $0.target.policies }
    }

    /// Whether the claims of one-to-ones must be settled again: by the policy another claim stands,
    /// or the one that stood is gone.
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
