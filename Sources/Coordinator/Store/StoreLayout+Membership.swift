import GRDB
import Merge

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

    /// The members, as the store has them.
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
