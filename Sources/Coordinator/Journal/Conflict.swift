public import Merge

/// A disagreement of concurrent writes, open or closed: one entry of the conflict journal.
public struct Conflict: Hashable, Sendable {
    /// Its name.
    public var id: ConflictID
    /// The kind of disagreement.
    public var kind: ConflictKind
    /// Where it stands.
    public var state: ConflictState
    /// The property in dispute; nil where it is a row, its existence or a link.
    public var property: String?
    /// The policy that applies.
    public var policy: MergePolicy
    /// All sides, earliest first.
    public var sides: [ConflictSide]
    /// Why the visible side is visible.
    public var explanation: Explanation
    /// The transaction that ended it: of a resolved one it had seen all sides, of a settled one it
    /// made them agree, or brought a reference's target back. Nil while the conflict is open, and
    /// where no transaction ended it: stability, a migration, or a join of two stores.
    public var closedBy: Dot?
    /// The generation in which it was first seen here.
    public var openedAt: UInt64
    /// Which rule of the model the object does not keep as it is shown; nil where it keeps all, or
    /// the conflict is about none.
    public var violation: ConflictViolation?
    /// The decision that resolved it, of an entry read from the journal; nil if nobody did.
    public var decision: ConflictDecision?
    /// Whether a name in it has come to stand for something else: a closed entry keeps the names of
    /// the model that it was closed under.
    var hasFormerNames = false

    /// Whether it is still open.
    public var isOpen: Bool { id.closedAt == nil }
    /// The object in dispute.
    public var object: ManagedObjectID {
        ManagedObjectID(entityName: id.entity, row: id.row)
    }
}

/// A rule of the model's validation that an object in conflict does not keep.
///
/// Saves are validated one by one; what is made of concurrent ones is shown all the same, so it may
/// be what no save would have been let to write.
public enum ConflictViolation: String, Hashable, Sendable, CaseIterable {
    /// A mandatory to-one reads as nil (NSValidationMissingMandatoryPropertyError).
    case missingMandatoryProperty
    /// Too few objects in a to-many (NSValidationRelationshipLacksMinimumCountError).
    case relationshipLacksMinimumCount
    /// Too many objects in a to-many (NSValidationRelationshipExceedsMaximumCountError).
    case relationshipExceedsMaximumCount
}

/// One side of a conflict.
public struct ConflictSide: Hashable, Sendable {
    /// The transaction that wrote it; nil for what a save discarded before it became one.
    public var dot: Dot?
    /// When it was written.
    public var timestamp: HybridTimestamp?
    /// Whether readers see this side.
    public var isVisible: Bool
    /// Whether this side deleted the row, or took the link away.
    public var isDeleted: Bool
    /// The property's value; nil where the side is of a whole row.
    public var value: PropertyValue?
    /// The values this side wrote, of a row or of its existence, sorted by name.
    public var row: [RowValue]
    /// The author of the write; known while the log still has the transaction.
    public var author: String?
    /// The writing context's name, likewise.
    public var contextName: String?
    /// Where the sides are of several objects with one unique key, the object whose side it is; nil
    /// of others.
    public var object: ManagedObjectID?
    /// The changes of to-manys that a save's policy discarded.
    public var relationships: [RelationshipOperation] = []

    /// A property's value with its name.
    public struct RowValue: Hashable, Sendable {
        /// The property.
        public let name: String
        /// Its value.
        public let value: PropertyValue
        /// The write it comes from, where that is not the side's own; nil where it is.
        public var stamp: Stamp?

        package init(name: String, value: PropertyValue, stamp: Stamp? = nil) {
            self.name = name
            self.value = value
            self.stamp = stamp
        }
    }
}

/// A conflict's bytes in the journal.
///
/// Layout: [kind, state, property, policy, rule, text, closedBy, violation, has former names, [side ...]]
///     side = [dot, timestamp, flags, value, author, context, object, [relationship ...], [entry ...]]
///     object = null or [entity, row]
///     relationship = [name, kind, [row ...]]
///     entry = [name, value, dot, timestamp]
///
/// A missing part is null, a timestamp 0. The author is there if no transaction names him: of
/// values that a save discarded.
enum ConflictCoding {
    static func encode(_ conflict: Conflict) -> [UInt8] {
        var writer = CBORWriter(capacity: 256)
        writer.beginArray(10)
        writer.write(conflict.kind.rawValue)
        writer.write(conflict.state.rawValue)
        writer.write(conflict.property)
        writer.write(conflict.policy.rawValue)
        writer.write(conflict.explanation.rule.rawValue)
        writer.write(conflict.explanation.text)
        write(conflict.closedBy, to: &writer)
        writer.write(conflict.violation?.rawValue)
        writer.write(conflict.hasFormerNames)
        writer.beginArray(conflict.sides.count)
        for side in conflict.sides { write(side, to: &writer) }
        return writer.bytes
    }

    private static func write(_ side: ConflictSide, to writer: inout CBORWriter) {
        let flags: [(Bool, Flags)] = [
            (side.isVisible, .visible), (side.isDeleted, .deleted), (side.value != nil, .value),
        ]
        writer.beginArray(9)
        write(side.dot, to: &writer)
        writer.write(side.timestamp?.rawValue ?? 0)
        writer.write(flags.reduce(UInt64(0)) { $0 | ($1.0 ? $1.1.rawValue : 0) })
        writer.write(side.value ?? .null)
        writer.write(side.dot == nil ? side.author : nil)
        writer.write(side.dot == nil ? side.contextName : nil)
        if let object = side.object {
            writer.beginArray(2)
            writer.write(object.entityName)
            writer.write(object.row.rawValue)
        } else {
            writer.writeNull()
        }
        writer.beginArray(side.relationships.count)
        for change in side.relationships {
            writer.beginArray(3)
            writer.write(change.name)
            writer.write(change.kind.rawValue)
            writer.beginArray(change.members.count)
            for member in change.members { writer.write(member.rawValue) }
        }
        writer.beginArray(side.row.count)
        for entry in side.row {
            writer.beginArray(4)
            writer.write(entry.name)
            writer.write(entry.value)
            write(entry.stamp?.dot, to: &writer)
            writer.write(entry.stamp?.timestamp.rawValue ?? 0)
        }
    }

    private static func write(_ dot: Dot?, to writer: inout CBORWriter) {
        writer.write(dot?.description)
    }

    static func decode(_ bytes: [UInt8], id: ConflictID, openedAt: UInt64) throws -> Conflict {
        do {
            var reader = CBORReader(bytes)
            try reader.array(exactly: 10)
            guard let kind = ConflictKind(rawValue: try reader.text()),
                let state = ConflictState(rawValue: try reader.text())
            else { throw DecodingFailure("unknown kind or state", offset: reader.offset) }
            let property = try reader.optionalText()
            guard let policy = MergePolicy(rawValue: try reader.text()),
                let rule = Explanation.Rule(rawValue: try reader.text())
            else { throw DecodingFailure("unknown policy or rule", offset: reader.offset) }
            let text = try reader.text()
            let closedBy = try dot(&reader)
            let violation = try reader.optionalText().map { word in
                guard let violation = ConflictViolation(rawValue: word) else {
                    throw DecodingFailure("unknown violation", offset: reader.offset)
                }
                return violation
            }
            let hasFormerNames = try reader.boolean()
            var sides: [ConflictSide] = []
            for _ in 0..<(try reader.array()) { sides.append(try side(&reader)) }
            try reader.finish()
            return Conflict(
                id: id, kind: kind, state: state, property: property, policy: policy,
                sides: sides, explanation: Explanation(rule: rule, text: text),
                closedBy: closedBy, openedAt: openedAt, violation: violation,
                hasFormerNames: hasFormerNames)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(
                .storeDamaged, "The journal's entry \(id) is damaged: \(failure).")
        }
    }

    private static func side(_ reader: inout CBORReader) throws -> ConflictSide {
        try reader.array(exactly: 9)
        let dot = try dot(&reader)
        let timestamp = try reader.timestamp()
        let flags = Flags(rawValue: try reader.unsigned())
        let value = try reader.value()
        let author = try reader.optionalText()
        let contextName = try reader.optionalText()
        let object = try object(&reader)
        let relationships = try relationships(&reader)
        var row: [ConflictSide.RowValue] = []
        for _ in 0..<(try reader.array()) { row.append(try entry(&reader)) }
        return ConflictSide(
            dot: dot, timestamp: timestamp == .zero ? nil : timestamp,
            isVisible: flags.contains(.visible), isDeleted: flags.contains(.deleted),
            value: flags.contains(.value) ? value : nil, row: row, author: author,
            contextName: contextName, object: object, relationships: relationships)
    }

    private static func dot(_ reader: inout CBORReader) throws -> Dot? {
        try reader.optionalText().flatMap { Dot($0) }
    }

    private static func object(_ reader: inout CBORReader) throws -> ManagedObjectID? {
        guard try !reader.null() else { return nil }
        try reader.array(exactly: 2)
        let entity = try reader.text()
        return ManagedObjectID(entityName: entity, row: RowID(try reader.signed()))
    }

    private static func relationships(
        _ reader: inout CBORReader
    ) throws -> [RelationshipOperation] {
        var result: [RelationshipOperation] = []
        for _ in 0..<(try reader.array()) {
            try reader.array(exactly: 3)
            let name = try reader.text()
            guard let kind = RelationshipOperation.Kind(rawValue: try reader.text()) else {
                throw DecodingFailure("unknown change of a to-many", offset: reader.offset)
            }
            var members: [RowID] = []
            for _ in 0..<(try reader.array()) { members.append(RowID(try reader.signed())) }
            result.append(RelationshipOperation(name: name, kind: kind, members: members))
        }
        return result
    }

    private static func entry(_ reader: inout CBORReader) throws -> ConflictSide.RowValue {
        try reader.array(exactly: 4)
        let name = try reader.text()
        let value = try reader.value()
        let dot = try dot(&reader)
        let timestamp = try reader.timestamp()
        return .init(
            name: name, value: value, stamp: dot.map { Stamp(timestamp: timestamp, dot: $0) })
    }

    private struct Flags: OptionSet {
        let rawValue: UInt64
        static let visible = Flags(rawValue: 1)
        static let deleted = Flags(rawValue: 2)
        static let value = Flags(rawValue: 4)
    }
}
