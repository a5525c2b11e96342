import GRDB
import Merge

/// Who is a member of the cluster, in `_member`.
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

extension StoreLayout {
    static func encoded(_ stamp: Stamp) -> [UInt8] {
        var writer = CBORWriter(capacity: 32)
        writer.write(stamp.timestamp.rawValue)
        writer.write(stamp.dot)
        return writer.bytes
    }

    private static func stamp(_ bytes: [UInt8]) throws -> Stamp {
        do {
            var reader = CBORReader(bytes)
            let raw = try reader.unsigned()
            let dot = try reader.dot()
            try reader.finish()
            guard let timestamp = HybridTimestamp(rawValue: raw) else {
                throw CoordinatorError(.storeDamaged, "A member's timestamp cannot be read.")
            }
            return Stamp(timestamp: timestamp, dot: dot)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(.storeDamaged, "A member cannot be read: \(failure).")
        }
    }

    /// Who is a member, as the store has it.
    static func readMembership(in database: Database) throws -> Membership {
        let statement = try database.prepared(
            """
            SELECT node, publish, exchange, publicKeys, joined, departed, retired FROM _member
            ORDER BY node
            """)
        defer { statement.reset() }
        var members: [Member] = []
        while try statement.step() {
            guard let node = NodeID(statement.integer(0)) else { continue }
            var member = Member(node: node)
            if let publish = statement.optionalText(1), let exchange = statement.optionalText(2) {
                member.address = MemberAddress(
                    publish: publish, exchange: exchange,
                    publicKeys: (statement.optionalText(3) ?? "").split(separator: " ")
                        .map(String.init))
            }
            if !statement.isNull(4) { member.joined = try stamp(statement.bytes(4)) }
            if !statement.isNull(5) {
                member.departure = Departure(
                    stamp: try stamp(statement.bytes(5)), isRetired: statement.integer(6) != 0)
            }
            members.append(member)
        }
        return Membership(members: members)
    }
}
