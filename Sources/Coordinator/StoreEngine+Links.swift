import GRDB
import Merge

/// A many-to-many link by its two ends.
struct LinkKey: Hashable, Comparable {
    let link: String
    let source: RowID
    let target: RowID

    static func < (one: Self, other: Self) -> Bool {
        (one.link, one.source, one.target) < (other.link, other.source, other.target)
    }
}

extension StoreEngine {
    /// The register of a link; empty where the link was never made.
    func loadLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Register<Bool> {
        try LinkCoding.load(
            link, source: source, target: target, from: database, actors: state.actors)
    }

    /// Applies the making or taking away of a link.
    func applyLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, isAlive: Bool,
        stamp: Stamp, seen: VersionVector
    ) throws {
        let old = try loadLink(link, source: source, target: target)
        var new = old
        new.apply(Sibling(stamp: stamp, value: isAlive), seen: seen)
        try write(link, source: source, target: target, over: old, new, by: stamp)
    }

    /// Writes a link's new register over its old one: table, digest, journal. An empty one takes it
    /// away.
    func write(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, over old: Register<Bool>,
        _ new: Register<Bool>, by stamp: Stamp
    ) throws {
        let isOpen = try hasLivingEnds(link, source: source, target: target)
        let before = history.settling(link, old)
        if let hash = Self.hash(before, source, target, old, hasLivingEnds: isOpen) {
            state.digest.subtract(hash)
        }
        let after = history.settling(link, new)
        if let hash = Self.hash(after, source, target, new, hasLivingEnds: isOpen) {
            state.digest.add(hash)
        }
        if new.siblings.isEmpty {
            try removeLink(link, source: source, target: target)
        } else {
            try writeLink(link, source: source, target: target, new)
        }
        noteCounts(link, source: source, target: target)
        try noteUncollected(link, source: source, target: target, new)
        try refreshGroupedLink(link, source: source, target: target)
        group.updated.append(ManagedObjectID(entityName: link.source, row: source))
        group.updated.append(ManagedObjectID(entityName: link.target, row: target))
        if isOpen {
            try journal(link, source: source, target: target, old: old, new: new, by: stamp)
        }
    }

    func writeLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, _ register: Register<Bool>
    ) throws {
        let statement = try database.prepared(
            """
            INSERT INTO \(EntityTable.quote(link.name)) (source, target, _alive, _siblings)
            VALUES (?1, ?2, ?3, ?4) ON CONFLICT (source, target)
            DO UPDATE SET _alive = excluded._alive, _siblings = excluded._siblings
            """)
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        let policy = history.settling(link, register).policy
        let isAlive =
            try LinkCoding.isAlive(register, policy: policy)
            && haveFittingEnds(link, source: source, target: target)
        statement.bind(3, isAlive ? 1 : 0)
        statement.bind(4, LinkCoding.encode(register, actors: state.actors))
        try statement.run()
    }

    func removeLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        let statement = try database.prepared(
            "DELETE FROM \(EntityTable.quote(link.name)) WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        try statement.run()
    }

    /// The hash of a link that is there; nil of one that is not.
    ///
    /// - Parameter hasLivingEnds: whether both its ends are alive, for only then is it shown, and
    ///   a conflict over it open.
    static func hash(
        _ link: ManagedObjectModel.Link, _ source: RowID, _ target: RowID,
        _ register: Register<Bool>, hasLivingEnds: Bool
    ) -> (UInt64, UInt64)? {
        guard LinkCoding.isAlive(register, policy: link.policy),
            let visible = LinkCoding.visible(register, policy: link.policy)
        else { return nil }
        let names = DigestNames(entity: link.name, properties: [])
        var hasher = RowHasher(entity: names.entity, row: source, insertion: visible.dot)
        hasher.combine(property: names.entity, value: .reference(target), dot: visible.dot)
        if hasLivingEnds, register.isInConflict, link.policy.leavesUnresolved {
            hasher.combine(unresolved: names.entity, dots: register.siblings.map(\.dot))
        }
        return hasher.finalize()
    }
}

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
