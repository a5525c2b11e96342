/// A row of a group as combining sees it.
package struct GroupMember: Sendable {
    /// The row.
    package let row: RowID
    /// Its registers.
    package let state: RowState
    /// The policies that settle its registers: those of the models that they were written by.
    package let policies: EntityPolicies
    /// For each property of the survivor's entity its position here; nil where this row's entity
    /// has no such property. A nil list stands for the same positions.
    package let positions: [Int?]?

    /// Describes a row of a group.
    package init(row: RowID, state: RowState, policies: EntityPolicies, positions: [Int?]? = nil) {
        self.row = row
        self.state = state
        self.policies = policies
        self.positions = positions
    }

    func position(_ survivors: Int) -> Int? {
        guard let positions else { return survivors }
        return survivors < positions.count ? positions[survivors] : nil
    }
}

/// The values that a survivor shows of its group (DESIGN section 5.5).
///
/// It keeps its own constrained properties, whatever they are (MODEL P10). Every other property is
/// the one of the members' visible values that the survivor's policy chooses, the earliest or the
/// latest as a rule; ties within one save go to the lowest row (MODEL P8). Of each member those that nobody ever
/// assigned are left alone. Of a property with an error policy of its own the earliest is shown,
/// and where the values differ nobody has decided: see ``undecided(_:)``. Under a row-grained
/// policy the members' whole rows are chosen from. Where the entity's policy is an error policy
/// nothing is combined. Members whose entity, of the same hierarchy, is grained otherwise take no
/// part.
///
/// Pure: a function of the members' registers, so every node shows the same.
package struct GroupCombination: Sendable {
    /// The visible row.
    package let survivor: GroupMember
    /// The rows it eclipses, in any order.
    package let eclipsed: [GroupMember]
    /// The positions of all properties that are part of a constraint of the survivor's entity.
    package let constrained: Set<Int>
    /// The policies of the survivor's entity, by which is chosen among members: the present
    /// model's, for groups never collapse. What a member's own registers show is decided before
    /// by ``GroupMember/policies`` (MODEL P14), as its keys are.
    package let policies: EntityPolicies

    /// Describes a group.
    package init(
        survivor: GroupMember, eclipsed: [GroupMember], constrained: Set<Int>,
        policies: EntityPolicies
    ) {
        self.survivor = survivor
        self.eclipsed = eclipsed
        self.constrained = constrained
        self.policies = policies
    }

    /// The value that readers see of a property of the survivor, before references are projected.
    ///
    /// - Returns: nil where nobody ever wrote the property: it is null.
    package func visible(_ position: Int) -> Sibling<PropertyValue>? {
        let own = survivor.state.visible(position, survivor.policies)
        let policy = policies.properties[position]
        if policies.entity.leavesUnresolved
            || constrained.contains(position)
        {
            return own
        }
        if policies.isRowGrained { return ofWholeRow(position) ?? own }
        let candidates = assigned(position).map { member, _, sibling in
            Candidate(row: member.row, stamp: sibling.stamp, value: sibling.value)
        }
        return Self.choose(candidates, by: policy).map {
            Sibling(stamp: $0.stamp, value: $0.value)
        } ?? own
    }

    /// The members to which somebody assigned the property, each with the property's position there
    /// and its visible value.
    func assigned(
        _ position: Int
    ) -> [(member: GroupMember, place: Int, visible: Sibling<PropertyValue>)] {
        ([survivor] + eclipsed).compactMap { member in
            guard !member.policies.isRowGrained, let place = member.position(position),
                let sibling = member.state.visible(place, member.policies),
                member.state.isAssigned(sibling, at: place)
            else { return nil }
            return (member, place, sibling)
        }
    }

    /// The member that is shown whole, under a row-grained policy that combines, and by which
    /// write.
    package var wholeRow: (row: RowID, stamp: Stamp)? {
        guard policies.isRowGrained, !policies.entity.leavesUnresolved else { return nil }
        let candidates = ([survivor] + eclipsed).compactMap { member -> Candidate<Void>? in
            guard member.policies.isRowGrained,
                let whole = member.state.visibleWhole(member.policies)
            else { return nil }
            return Candidate(row: member.row, stamp: whole.stamp, value: ())
        }
        return Self.choose(candidates, policies.entity.choice).map { ($0.row, $0.stamp) }
    }

    /// Row-grained: one member's whole row is chosen; what its entity does not have stays the
    /// survivor's own.
    private func ofWholeRow(_ position: Int) -> Sibling<PropertyValue>? {
        let candidates = ([survivor] + eclipsed).compactMap {
            member -> Candidate<PropertyValue?>? in
            guard member.policies.isRowGrained,
                let whole = member.state.visibleWhole(member.policies)
            else { return nil }
            let value = member.position(position).flatMap {
                member.state.visible($0, member.policies)?.value
            }
            return Candidate(row: member.row, stamp: whole.stamp, value: value)
        }
        guard let chosen = Self.choose(candidates, policies.entity.choice),
            let value = chosen.value
        else { return nil }
        return Sibling(stamp: chosen.stamp, value: value)
    }

    private struct Candidate<Value> {
        let row: RowID
        let stamp: Stamp
        let value: Value
    }

    private static func choose(
        _ candidates: [Candidate<PropertyValue>], by policy: MergePolicy
    ) -> Candidate<PropertyValue>? {
        guard case .named(let named) = policy, candidates.count > 1 else {
            return choose(candidates, policy.choice)
        }
        let sorted = candidates.sorted { ($0.stamp, $0.row) < ($1.stamp, $1.row) }
        return sorted[
            named.chosen(among: sorted.map { Sibling(stamp: $0.stamp, value: $0.value) })]
    }

    private static func choose<Value>(
        _ candidates: [Candidate<Value>], _ choice: MergePolicy.Choice
    ) -> Candidate<Value>? {
        candidates.min { left, right in
            if left.stamp == right.stamp { return left.row < right.row }
            return choice == .earliest ? left.stamp < right.stamp : right.stamp < left.stamp
        }
    }
}
