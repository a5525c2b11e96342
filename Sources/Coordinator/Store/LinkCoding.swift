import GRDB
import Merge

/// A link's existence register: who sees it, and its bytes.
///
/// Layout: [dot, timestamp, alive, ...].
enum LinkCoding {
    /// The sibling that decides: earliest or latest; under an error policy the earliest that
    /// says the link is there, for hiding data is the worse mistake.
    static func visible(_ register: Register<Bool>, policy: MergePolicy) -> Sibling<Bool>? {
        if policy.leavesUnresolved, let kept = register.siblings.first(where: \.value) {
            return kept
        }
        return register.visible(policy.choice)
    }

    static func isAlive(_ register: Register<Bool>, policy: MergePolicy) -> Bool {
        visible(register, policy: policy)?.value ?? false
    }

    /// The register of a link as a store has it; empty where it has none.
    static func load(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, from database: Database,
        actors: ActorTable
    ) throws -> Register<Bool> {
        let statement = try database.prepared(
            "SELECT _siblings FROM \(EntityTable.quote(link.name)) "
                + "WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        defer { statement.reset() }
        guard try statement.step() else { return Register() }
        return try decode(statement.bytes(0), actors: actors)
    }

    /// The first byte of a register of one sibling: an array of three. No other can be disputed.
    static let headerOfOne: [UInt8] = [0x83]

    static func encode(_ register: Register<Bool>, actors: ActorTable) -> [UInt8] {
        var writer = CBORWriter(capacity: 24)
        writer.beginArray(register.siblings.count * 3)
        for sibling in register.siblings {
            writer.write(actors.integer(sibling.dot))
            writer.write(sibling.stamp.timestamp.rawValue)
            writer.write(sibling.value)
        }
        return writer.bytes
    }

    /// The register of a link.
    static func decode(_ bytes: [UInt8], actors: ActorTable) throws -> Register<Bool> {
        do {
            var reader = CBORReader(bytes)
            var siblings: [Sibling<Bool>] = []
            for _ in 0..<(try reader.array() / 3) {
                let dot = try actors.dot(try reader.signed())
                let timestamp = try reader.timestamp()
                siblings.append(
                    Sibling(
                        stamp: Stamp(timestamp: timestamp, dot: dot),
                        value: try reader.boolean()))
            }
            try reader.finish()
            return Register(siblings: siblings)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(
                .storeDamaged, "The siblings of a link are damaged: \(failure).")
        }
    }
}
