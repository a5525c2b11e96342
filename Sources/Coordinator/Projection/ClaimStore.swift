import Merge

/// A target of a one-to-one that more rows than one may claim.
struct Claim: Hashable, Comparable {
    /// The entity that declares the to-one.
    let owner: String
    /// The to-one by which they claim.
    let property: String
    /// Their claims.
    let target: RowID

    static func < (left: Self, right: Self) -> Bool {
        if left.target != right.target { return left.target < right.target }
        let names = (left.owner + "." + left.property, right.owner + "." + right.property)
        return names.0.utf8.lexicographicallyPrecedes(names.1.utf8)
    }
}

/// One-to-one: the state is on one side, and concurrent saves can make several rows claim one
/// target. Then the policy's earliest or latest write stands, and the others read as nil until
/// it is withdrawn (DESIGN section 5.4). The policy is that of the entity that declares the
/// relationship, whichever of its heirs the claimants are.
///
/// A living row's claim is either shown in its column or listed in `_dangling`, so both together
/// are all claims there are.
struct ClaimStore: StorePart {
    let session: StoreSession

    /// The targets a visible row claims alone; in place of an eclipsed target its survivor.
    func claims(_ loaded: LoadedRow) throws -> [Claim] {
        guard loaded.isVisible else { return [] }
        return try loaded.table.exclusive.compactMap { exclusive in
            guard case .reference(let target)? = loaded.shown(exclusive.position)?.value else {
                return nil
            }
            let shown = try rowStore.ledTo(target, from: loaded.table, exclusive.position) ?? target
            return Claim(owner: exclusive.owner, property: exclusive.property, target: shown)
        }
    }

    /// The claims there may be to a row.
    func possibleClaims(to row: RowID, root: String) -> [Claim] {
        var result = Set<Claim>()
        for table in tables.values {
            for exclusive in table.exclusive where exclusive.root == root {
                result.insert(
                    Claim(owner: exclusive.owner, property: exclusive.property, target: row))
            }
        }
        return result.sorted()
    }

    /// All other living rows that claim a target, whether or not readers see it.
    func claimants(_ claim: Claim, besides row: RowID) throws -> [LoadedRow] {
        var found = Set<RowID>()
        let shown = try database.prepared(
            "SELECT _id FROM \(EntityTable.quote(table(claim.owner).entity.root)) "
                + "WHERE \(EntityTable.quote(claim.property)) = ?1")
        shown.bind(1, claim.target.rawValue)
        while try shown.step() { found.insert(RowID(shown.integer(0))) }
        let hidden = try database.prepared("SELECT row FROM _dangling WHERE target = ?1")
        for target in [claim.target] + (try eclipsedRows(of: claim)) {
            hidden.bind(1, target.rawValue)
            while try hidden.step() { found.insert(RowID(hidden.integer(0))) }
        }
        found.remove(row)
        return try found.sorted().compactMap { other in
            guard let loaded = try rowStore.load(table(claim.owner), other),
                try claims(loaded).contains(claim)
            else { return nil }
            return loaded
        }
    }

    /// The rows that a claim's target eclipses.
    func eclipsedRows(of claim: Claim) throws -> [RowID] {
        let exclusive = table(claim.owner).exclusive.first { $0.property == claim.property }
        guard state.eclipsed > 0, let root = exclusive?.root, groupedRoots.contains(root) else {
            return []
        }
        let statement = try database.prepared(
            "SELECT row FROM _eclipsed WHERE survivor = ?1 ORDER BY row")
        statement.bind(1, claim.target.rawValue)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    /// Whether a row's claim stands against all others.
    func stands(_ claim: Claim, of claimant: LoadedRow) throws -> Bool {
        let row = claimant.row
        let others = try claimants(claim, besides: row)
        guard !others.isEmpty, let own = stamp(of: claim, claimant) else { return true }
        let owner = self.table(claim.owner)
        let choice = owner.entity.policies.properties[position(of: claim, owner)].choice
        return others.allSatisfy { other in
            guard let stamp = stamp(of: claim, other) else { return true }
            // Two of one save: the lowest number, under either rule.
            if stamp == own { return row < other.row }
            return choice == .earliest ? own < stamp : stamp < own
        }
    }

    func position(of claim: Claim, _ table: EntityTable) -> Int {
        table.entity.position(of: claim.property) ?? 0
    }

    func stamp(of claim: Claim, _ loaded: LoadedRow) -> Stamp? {
        loaded.shown(position(of: claim, loaded.table))?.stamp
    }

    /// Whether another row than the one that is being inserted claims a target.
    func isContested(
        _ table: EntityTable, _ position: Int, _ target: RowID, by row: RowID
    ) throws -> Bool {
        guard let exclusive = table.exclusive.first(where: { $0.position == position }) else {
            return false
        }
        let claim = Claim(owner: exclusive.owner, property: exclusive.property, target: target)
        return try !claimants(claim, besides: row).isEmpty
    }

    /// Rows that claim a target of a one-to-one without readers' seeing it.
    func hiddenClaimants(_ claim: Claim) throws -> [RowID] {
        try claimants(claim, besides: RowID(0)).filter { claimant in
            claimant.columns[position(of: claim, claimant.table)].isNull
        }.map(\.row)
    }
}
