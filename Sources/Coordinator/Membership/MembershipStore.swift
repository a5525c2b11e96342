import Merge

/// The members of the cluster, in `_member`.
struct MembershipStore: StorePart {
    let session: StoreSession

    /// Takes in a change of membership, as part of scratch.applying its transaction.
    func apply(_ change: MembershipChange, stamp: Stamp) throws {
        state.membership.apply(change, stamp: stamp)
        guard let member = state.membership[change.node] else { return }
        let statement = try database.prepared(
            """
            INSERT OR REPLACE INTO _member
                (node, publish, exchange, publicKeys, joined, departed, retired)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            """)
        statement.bind(1, Int64(member.node.rawValue))
        if let address = member.address {
            statement.bind(2, address.publish)
            statement.bind(3, address.exchange)
            statement.bind(4, address.publicKeys.joined(separator: " "))
        } else {
            for column: Int32 in 2...4 { statement.bindNull(column) }
        }
        if let joined = member.joined {
            statement.bind(5, StoreLayout.encoded(joined))
        } else {
            statement.bindNull(5)
        }
        if let departure = member.departure {
            statement.bind(6, StoreLayout.encoded(departure.stamp))
            statement.bind(7, departure.isRetired ? 1 : 0)
        } else {
            statement.bindNull(6)
            statement.bindNull(7)
        }
        try statement.run()
    }
}
