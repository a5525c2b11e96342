/// One side of a property of united rows that nobody has decided.
package struct GroupSide: Hashable, Sendable {
    /// The row with the value.
    package let row: RowID
    /// The write that it comes from.
    package let stamp: Stamp
    /// The value.
    package let value: PropertyValue
}

extension GroupCombination {
    /// The sides of a property that an error policy of its own leaves to a person, earliest first;
    /// none where the members' values are equal, or there is no such policy (DESIGN section 5.5).
    ///
    /// A side is the visible value of a member to which somebody assigned the property. If a
    /// member's own register waits for a decision, all its siblings are sides: a decision writes to
    /// every member, and so decides over these too (MODEL P18).
    ///
    /// A function of the members' registers alone. Stability changes nothing of it: it keeps visible
    /// siblings, and all of a register that waits for a decision.
    package func undecided(_ position: Int) -> [GroupSide] {
        guard !eclipsed.isEmpty, !policies.isRowGrained, !policies.entity.leavesUnresolved,
            policies.properties[position].leavesUnresolved, !constrained.contains(position)
        else { return [] }
        var members = assigned(position)
        guard let first = members.first,
            members.contains(where: { $0.visible.value != first.visible.value })
        else { return [] }
        if !members.contains(where: { $0.member.row == survivor.row }),
            !survivor.policies.isRowGrained, waits(survivor, position),
            let visible = survivor.state.visible(position, survivor.policies)
        {
            members.append((survivor, position, visible))
        }
        let sides = members.flatMap { member, place, visible in
            let siblings =
                waits(member, place) ? member.state.properties[place].siblings : [visible]
            return siblings.map { GroupSide(row: member.row, stamp: $0.stamp, value: $0.value) }
        }
        return sides.sorted { left, right in
            left.stamp == right.stamp ? left.row < right.row : left.stamp < right.stamp
        }
    }

    /// Whether a member's register waits for a decision by itself.
    private func waits(_ member: GroupMember, _ place: Int) -> Bool {
        member.policies.properties[place].leavesUnresolved
            && member.state.properties[place].isInConflict
    }
}
