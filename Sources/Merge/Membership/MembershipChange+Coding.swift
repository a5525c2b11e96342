/// How a change of membership is written in a transaction: as the insertion or the deletion of a
/// row of an entity that no model can have, numbered by the node.
extension MembershipChange {
    /// The entity's name; names of a model's entities never begin with an underscore.
    package static let entity = "_member"

    private static let joining = ChangeShape(
        entity: entity, assigned: ["publish", "exchange", "publicKeys"])
    private static let departing = ChangeShape(entity: entity, assigned: ["isRetired"])

    /// The meaning of the changes' values.
    package static let shapes = [joining, departing]

    /// The change as it stands in a transaction with ``shapes``.
    package var change: Change {
        let row = RowID(Int64(node.rawValue))
        switch self {
        case .join(_, let address):
            return Change(
                kind: .insert, shape: 0, row: row,
                values: [
                    .string(address.publish), .string(address.exchange),
                    .string(address.publicKeys.joined(separator: " ")),
                ])
        case .depart(_, let isRetired):
            return Change(kind: .delete, shape: 1, row: row, values: [.boolean(isRetired)])
        }
    }

    /// Reads a change; nil where it is none of these two.
    package init?(_ change: Change, shape: ChangeShape) {
        guard shape.entity == Self.entity, let node = NodeID(change.row.rawValue) else {
            return nil
        }
        switch (change.kind, change.values) {
        case (.insert, let values) where shape == Self.joining:
            guard case .string(let publish) = values[0], case .string(let exchange) = values[1],
                case .string(let keys) = values[2]
            else { return nil }
            self = .join(
                node,
                MemberAddress(
                    publish: publish, exchange: exchange,
                    publicKeys: keys.split(separator: " ").map(String.init)))
        case (.delete, let values) where shape == Self.departing:
            guard case .boolean(let isRetired) = values[0] else { return nil }
            self = .depart(node, isRetired: isRetired)
        default: return nil
        }
    }
}
