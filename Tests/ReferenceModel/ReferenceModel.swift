package import Coordinator
package import Merge

/// What a store must show, computed from a set of saves and the model alone.
///
/// Deliberately naive: every register is looked at from all writes ever made to it, and its
/// siblings are those that no other of them has seen (DESIGN section 5). Nothing is applied one
/// after the other, so there is no order of delivery that could matter. A value, usable from any
/// thread.
package struct ReferenceModel: Sendable {
    let model: ManagedObjectModel
    let models: [[UInt8]: ManagedObjectModel]
    var rows: [RowID: ReferenceRow] = [:]
    private(set) var links: [ReferenceLink] = []
    private var referrers: [RowID: [(row: RowID, property: String)]] = [:]

    /// Computes what is to be seen.
    ///
    /// - Parameters:
    ///   - model: the model that readers use.
    ///   - transactions: the saves, in any order, repeated or not; with each of them everything
    ///     it has seen.
    ///   - vector: which of them count; nil for all.
    ///   - olderModels: models that some of the transactions may name, for a register is settled
    ///     by the policy of the model that its newest sibling names.
    ///   - former: the same, by the hash that transactions name, where a model is given in the
    ///     names that the transactions were translated to.
    package init(
        _ model: ManagedObjectModel, _ transactions: [Transaction],
        at vector: VersionVector? = nil, olderModels: [ManagedObjectModel] = [],
        former: [[UInt8]: ManagedObjectModel] = [:]
    ) {
        self.model = model
        models = Dictionary(
            (olderModels + [model]).map { ($0.modelHash, $0) }, uniquingKeysWith: { $1 }
        ).merging(former) { $1 }
        let history = History(transactions, at: vector)
        for (row, writes) in history.rows {
            // Of a row whose insert is not there nothing is known.
            guard let name = history.entities[row], let entity = model.entity(named: name)
            else { continue }
            rows[row] = settle(entity, writes)
        }
        groupRows()
        links = history.links.map { settle($0, $1) }
        links.sort { left, right in
            left.key.name == right.key.name
                ? (left.key.source, left.key.target) < (right.key.source, right.key.target)
                : left.key.name < right.key.name
        }
        combineGroups()
        dropReferencesToTheDead()
        settleClaims()
        indexReferences()
    }

    // MARK: Reading

    /// Whether readers see the row.
    package func isAlive(_ row: RowID) -> Bool { rows[row]?.isVisible ?? false }

    /// The name of a living row's entity; nil where readers see no such row.
    package func entity(of row: RowID) -> String? {
        guard let row = rows[row], row.isVisible else { return nil }
        return row.entity.name
    }

    /// The living rows of exactly that entity, in order of identity.
    package func rows(_ entity: String) -> [RowID] {
        rows.filter { $0.value.isVisible && $0.value.entity.name == entity }.map(\.key).sorted()
    }

    /// All living rows, in order of identity.
    package var livingRows: [RowID] { rows.filter { $0.value.isVisible }.map(\.key).sorted() }

    /// What readers see of a property; nil where they see no such row, or it has none.
    package func value(_ row: RowID, _ property: String) -> PropertyValue? {
        guard let row = rows[row], row.isVisible else { return nil }
        return row.registers[property]?.shown
    }

    /// What a property's register holds, also where readers see null because a reference leads
    /// nowhere; nil where readers see no such row, or it has no such property.
    package func rawValue(_ row: RowID, _ property: String) -> PropertyValue? {
        guard let row = rows[row], row.isVisible else { return nil }
        return row.registers[property]?.raw
    }

    /// The transaction whose write of a property stands; nil where readers see no such row.
    package func winner(_ row: RowID, _ property: String) -> Dot? {
        guard let row = rows[row], row.isVisible else { return nil }
        return row.registers[property]?.winner.dot
    }

    /// The own version of a living row, without those of rows it eclipses; nil where readers see
    /// no such row.
    package func version(_ row: RowID) -> Set<Dot>? {
        guard let row = rows[row], row.isVisible else { return nil }
        return Set(row.existence.map(\.dot))
    }

    /// The rows that a relationship of any kind leads to, in order of identity.
    package func members(_ row: RowID, _ name: String) -> [RowID] {
        guard let found = rows[row], found.isVisible,
            let relationship = found.entity.relationship(named: name)
        else { return [] }
        switch relationship.storage {
        case .column:
            guard case .reference(let target)? = value(row, name) else { return [] }
            return [target]
        case .inverseColumn(let owner, let property):
            let family = model.entity(named: owner)?.familyNames ?? []
            return (referrers[row] ?? []).filter { referrer in
                referrer.property == property
                    && family.contains(rows[referrer.row]?.entity.name ?? "")
            }.map(\.row).sorted()
        case .link(let link, let isFirst):
            // A relationship that is its own inverse leads both ways.
            let isSymmetric = isFirst && isOwnInverse(relationship)
            var result = Set<RowID>()
            for made in links where made.key.name == link {
                guard let (source, target) = shownEnds(made) else { continue }
                if isFirst, source == row { result.insert(target) }
                if !isFirst || isSymmetric, target == row { result.insert(source) }
            }
            return result.sorted()
        }
    }

    private func isOwnInverse(_ relationship: ManagedObjectModel.Relationship) -> Bool {
        let description = relationship.description
        guard description.inverse == relationship.name,
            let back = model.entity(named: relationship.destination)?
                .relationship(named: relationship.name)
        else { return false }
        return back.storage == relationship.storage
    }

    /// The living links between living rows of a link table, each once, in order of their ends.
    package func livingLinks(_ name: String) -> [(source: RowID, target: RowID)] {
        var shown = Set<ReferenceLink.Key>()
        for link in links where link.key.name == name {
            guard let (source, target) = shownEnds(link) else { continue }
            shown.insert(ReferenceLink.Key(name: name, source: source, target: target))
        }
        return shown.map { ($0.source, $0.target) }.sorted { $0 < $1 }
    }

    // MARK: Settling registers

    /// The policy of a register: that of the model its newest sibling names (5.1).
    private func policies(
        _ entity: ManagedObjectModel.Entity, _ siblings: [ReferenceWrite]
    ) -> ManagedObjectModel.Entity {
        guard let newest = ReferenceWrite.choose(siblings, .latest),
            let named = models[newest.modelHash]?.entity(named: entity.name)
        else { return entity }
        return named
    }

    /// What a write says of a property; nil where it says nothing.
    ///
    /// An insertion or a revival, and any write of a row-grained row, is of all properties. What
    /// it does not name is null, or the default where its writer's model had no such property.
    func value(
        _ property: ManagedObjectModel.Property, of entity: ManagedObjectModel.Entity,
        in write: ReferenceWrite
    ) -> PropertyValue? {
        if let value = write.values[property.name] { return value }
        guard !write.isDeath, write.isWhole || entity.policies.entity.isByRow else { return nil }
        let writers = models[write.modelHash]?.entity(named: entity.name) ?? entity
        return writers.position(of: property.name) == nil
            ? Self.standIn(property, of: entity) : .null
    }

    /// What stands for a value where its writer's model had no such property.
    package static func standIn(
        _ property: ManagedObjectModel.Property, of entity: ManagedObjectModel.Entity
    ) -> PropertyValue {
        let attribute = entity.attributes.first { $0.name == property.name }
        return attribute?.formerDefault ?? property.defaultValue
    }

    private func settle(
        _ entity: ManagedObjectModel.Entity, _ writes: [ReferenceWrite]
    ) -> ReferenceRow {
        let existence = ReferenceWrite.maximal(writes)
        let policy = policies(entity, existence).policies.entity
        let living = existence.filter { !$0.isDeath }
        let isAlive: Bool
        switch policy {
        case .error, .errorByRow: isAlive = !living.isEmpty
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            isAlive = living.count == existence.count
        case .rollback, .overwrite, .named:
            isAlive = ReferenceWrite.choose(existence, policy.stands)?.isDeath == false
        }
        var registers: [String: ReferenceRegister] = [:]
        if policy.isByRow {
            // Who wins wins whole; a delete that wins leaves nothing to show.
            let winner = ReferenceWrite.choose(living, policy.stands)
            for property in entity.properties where isAlive {
                guard let winner else { continue }
                let raw = value(property, of: entity, in: winner) ?? .null
                registers[property.name] = ReferenceRegister(
                    siblings: existence, winner: winner, policy: policy, raw: raw, shown: raw)
            }
        } else {
            for property in entity.properties {
                registers[property.name] = settle(property, of: entity, writes)
            }
        }
        return ReferenceRow(
            entity: entity, writes: writes, existence: existence, policy: policy,
            isAlive: isAlive, registers: registers)
    }

    private func settle(
        _ property: ManagedObjectModel.Property, of entity: ManagedObjectModel.Entity,
        _ writes: [ReferenceWrite]
    ) -> ReferenceRegister? {
        let siblings = ReferenceWrite.maximal(
            writes.filter { value(property, of: entity, in: $0) != nil })
        let named = policies(entity, siblings)
        let policy =
            named.position(of: property.name).map { named.policies.properties[$0] }
            ?? named.policies.entity
        func raw(_ write: ReferenceWrite) -> PropertyValue {
            value(property, of: entity, in: write) ?? .null
        }
        let chosen =
            if case .named(let own) = policy {
                ReferenceWrite.choose(siblings, own, value: raw)
            } else { ReferenceWrite.choose(siblings, policy.stands) }
        guard let winner = chosen else { return nil }
        return ReferenceRegister(
            siblings: siblings, winner: winner, policy: policy, raw: raw(winner),
            shown: raw(winner))
    }

    private func settle(
        _ key: ReferenceLink.Key, _ writes: [ReferenceWrite]
    ) -> ReferenceLink {
        let siblings = ReferenceWrite.maximal(writes)
        let newest = ReferenceWrite.choose(siblings, .latest)
        let named = newest.flatMap { models[$0.modelHash]?.link(named: key.name) }
        let policy = (named ?? model.link(named: key.name))?.policy ?? .error
        let isMade =
            policy.asksSomebody
            ? siblings.contains { !$0.isDeath }
            : ReferenceWrite.choose(siblings, policy.stands)?.isDeath == false
        return ReferenceLink(
            key: key, writes: writes, siblings: siblings, policy: policy, isMade: isMade,
            endsLive: shownRow(key.source) != nil && shownRow(key.target) != nil)
    }

    // MARK: Settling references

    /// Whether a row is of an entity or inherits from it: what is shown in the place of another may
    /// not be, and no relationship leads readers to what it was not declared to lead to (5.4).
    private func isA(_ row: RowID, _ entity: String) -> Bool {
        guard let name = rows[row]?.entity.name else { return false }
        return model.entity(named: entity)?.familyNames.contains(name) ?? false
    }

    /// The ends between which readers see a link; nil where they do not.
    private func shownEnds(_ link: ReferenceLink) -> (source: RowID, target: RowID)? {
        guard link.isMade, link.endsLive, let named = model.link(named: link.key.name),
            let source = shownRow(link.key.source), isA(source, named.source),
            let target = shownRow(link.key.target), isA(target, named.target)
        else { return nil }
        return (source, target)
    }

    private mutating func dropReferencesToTheDead() {
        for (row, found) in rows where found.isVisible {
            for (name, register) in found.registers {
                guard case .reference(let target) = register.raw,
                    let position = found.entity.position(of: name),
                    case .toOne(let destination) = found.entity.properties[position].content
                else { continue }
                let shown = shownRow(target).flatMap { isA($0, destination) ? $0 : nil }
                rows[row]?.registers[name]?.shown = shown.map { .reference($0) } ?? .null
            }
        }
    }

    private struct Claim: Hashable {
        let owner: String
        let property: String
        let target: RowID
    }

    /// Of several rows whose one-to-one leads to one target only one keeps its reference (5.4).
    private mutating func settleClaims() {
        var owners: [String: [(property: String, owner: String)]] = [:]
        for entity in model.entities { owners[entity.name] = oneToOnes(entity) }
        var claims: [Claim: [(stamp: Stamp, row: RowID)]] = [:]
        for (row, found) in rows where found.isVisible {
            for (property, owner) in owners[found.entity.name] ?? [] {
                guard let register = found.registers[property],
                    case .reference(let target) = register.shown
                else { continue }
                claims[Claim(owner: owner, property: property, target: target), default: []]
                    .append((register.winner.stamp, row))
            }
        }
        for (claim, claimants) in claims where claimants.count > 1 {
            guard let owner = model.entity(named: claim.owner),
                let position = owner.position(of: claim.property)
            else { continue }
            let choice = owner.policies.properties[position].stands
            // Ties within one save go to the lowest row, under both rules.
            let winner = claimants.min { left, right in
                if left.stamp == right.stamp { return left.row < right.row }
                return left.stamp.precedes(right.stamp) == (choice == .earliest)
            }
            for claimant in claimants where claimant.row != winner?.row {
                rows[claimant.row]?.registers[claim.property]?.shown = .null
            }
        }
    }

    /// The columns of an entity that keep one-to-ones, each with the entity that declares it.
    private func oneToOnes(
        _ entity: ManagedObjectModel.Entity
    ) -> [(property: String, owner: String)] {
        entity.relationships.compactMap { relationship in
            guard case .column = relationship.storage, !relationship.isToMany,
                let name = relationship.description.inverse,
                let inverse = model.entity(named: relationship.destination)?
                    .relationship(named: name), !inverse.isToMany
            else { return nil }
            if case .inverseColumn(let owner, _) = inverse.storage {
                return (relationship.name, owner)
            }
            return (relationship.name, relationship.destination)
        }
    }

    private mutating func indexReferences() {
        for (row, found) in rows where found.isVisible {
            for (name, register) in found.registers {
                guard case .reference(let target) = register.shown else { continue }
                referrers[target, default: []].append((row, name))
            }
        }
    }
}
