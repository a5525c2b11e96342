/// The canonical bytes of a transaction: the same in the log and on the wire.
///
/// Layout: one CBOR array of 12
///
///     [format, node, incarnation, sequence, timestamp, seen, author, contextName, saveID,
///      modelHash, [shapes], [changes]]
///     shape  = [entity, [assigned names], [carried names]]
///     change = [kind, shape, row, (target for links,) value ...]
///
/// `seen` is the frontier of what the transaction has seen, to which the beginnings of its actors belong
/// (``Beginnings``), with the entry of the transaction's own actor in any case.
///
/// Downside: a change is only readable with the shapes before it. It buys a third of the bytes
/// of a bulk import.
extension Transaction {
    /// The format's number. A transaction of any other is refused.
    static let format: UInt64 = 1

    /// Bounds of what a decoder accepts, each far above what the product writes itself.
    package enum Bounds {
        /// The most changes in one transaction.
        package static let changes = 4_000_000
        /// The most values of all changes together: 768 MB in memory, whatever few bytes they have.
        package static let values = 32_000_000
        /// The most shapes; shapes repeat, so there are few.
        package static let shapes = 65_536
        /// The most names of properties in all shapes together.
        package static let names = 4_000_000
        /// The most properties in a shape, as SQLite's default limit of columns.
        package static let properties = 2_000
    }

    /// The canonical bytes.
    ///
    /// - Parameter frontier: of ``seen``, with its own actor's entry; nil where ``seen`` is that itself.
    package func encoded(telling frontier: VersionVector? = nil) -> [UInt8] {
        var writer = CBORWriter(capacity: 160 + changes.count * 64)
        writer.beginArray(12)
        writer.write(Self.format)
        writer.write(UInt64(dot.actor.node.rawValue))
        writer.write(dot.actor.incarnation)
        writer.write(dot.sequence)
        writer.write(timestamp.rawValue)
        writer.write(frontier ?? seen)
        writer.write(author)
        writer.write(contextName)
        writer.write(saveID)
        writer.write(modelHash)
        writer.beginArray(shapes.count)
        for shape in shapes {
            writer.beginArray(3)
            writer.write(shape.entity)
            writer.beginArray(shape.assigned.count)
            for name in shape.assigned { writer.write(name) }
            writer.beginArray(shape.carried.count)
            for name in shape.carried { writer.write(name) }
        }
        writer.beginArray(changes.count)
        for change in changes { writer.write(change) }
        return writer.bytes
    }

    /// Reads canonical bytes; total: whatever the bytes are, it gives a transaction or throws. What it
    /// has seen is as the bytes tell it.
    package static func decode(_ bytes: [UInt8]) throws(DecodingFailure) -> Transaction {
        try decodeTold(bytes, keepsChanges: true).transaction
    }

    /// The content of a transaction's bytes.
    struct Told {
        var transaction: Transaction
        var changeCount: Int
        var valueCount: Int
    }

    /// Reads canonical bytes likewise.
    ///
    /// - Parameter keepsChanges: whether shapes and changes are part of the answer; they are checked in
    ///   any case.
    static func decodeTold(
        _ bytes: [UInt8], keepsChanges: Bool
    ) throws(DecodingFailure) -> Told {
        var reader = CBORReader(bytes)
        try reader.array(exactly: 12)
        let known = try reader.unsigned()
        guard known == format else {
            throw DecodingFailure(
                "transaction format \(known) of a later program, or of one before 0.1.0",
                offset: reader.offset)
        }
        let told = try decode(from: &reader, keepsChanges: keepsChanges)
        try reader.finish()
        return told
    }

    /// Reads what stands behind the format.
    private static func decode(
        from reader: inout CBORReader, keepsChanges: Bool
    ) throws(DecodingFailure) -> Told {
        let actor = try reader.actor()
        let sequence = try reader.unsigned()
        guard sequence > 0 else {
            throw DecodingFailure("a sequence starts at 1", offset: reader.offset)
        }
        let timestamp = try reader.timestamp()
        let seen = try reader.vector()
        guard seen[actor] == sequence - 1 else {
            throw DecodingFailure(
                "a transaction has seen exactly its actor's earlier ones", offset: reader.offset)
        }
        let author = try reader.optionalText()
        let contextName = try reader.optionalText()
        let saveID = try reader.optionalText()
        let modelHash = try reader.data()
        guard modelHash.count == 32 else {
            throw DecodingFailure("a model hash has 32 bytes", offset: reader.offset)
        }
        let shapes = try decodeShapes(from: &reader)
        var changes: [Change] = []
        let (changeCount, valueCount) = try decodeChanges(from: &reader, shapes: shapes) {
            if keepsChanges { changes.append($0) }
        }
        let transaction = Transaction(
            dot: Dot(actor: actor, sequence: sequence), timestamp: timestamp, seen: seen,
            author: author, contextName: contextName, saveID: saveID, modelHash: modelHash,
            shapes: keepsChanges ? shapes : [], changes: changes)
        return Told(
            transaction: transaction, changeCount: changeCount, valueCount: valueCount)
    }

    private static func decodeShapes(
        from reader: inout CBORReader
    ) throws(DecodingFailure) -> [ChangeShape] {
        let count = try reader.array(least: 4)
        guard count <= Bounds.shapes else {
            throw DecodingFailure("too many shapes", offset: reader.offset)
        }
        var shapes: [ChangeShape] = []
        shapes.reserveCapacity(count)
        var nameCount = 0
        for _ in 0..<count {
            try reader.array(exactly: 3)
            let entity = try reader.text()
            let assigned = try names(from: &reader)
            let carried = try names(from: &reader)
            let shape = ChangeShape(entity: entity, assigned: assigned, carried: carried)
            nameCount += shape.valueCount
            guard nameCount <= Bounds.names else {
                throw DecodingFailure("too many names of properties", offset: reader.offset)
            }
            guard shape.namesEachOnce else {
                throw DecodingFailure("a shape names a property twice", offset: reader.offset)
            }
            shapes.append(shape)
        }
        return shapes
    }

    private static func names(
        from reader: inout CBORReader
    ) throws(DecodingFailure) -> [String] {
        let count = try reader.array()
        guard count <= Bounds.properties else {
            throw DecodingFailure("too many properties", offset: reader.offset)
        }
        var names: [String] = []
        names.reserveCapacity(count)
        for _ in 0..<count { names.append(try reader.text()) }
        return names
    }

    private static func decodeChanges(
        from reader: inout CBORReader, shapes: [ChangeShape], take: (Change) -> Void
    ) throws(DecodingFailure) -> (changes: Int, values: Int) {
        let count = try reader.array(least: 4)
        guard count <= Bounds.changes else {
            throw DecodingFailure("too many changes", offset: reader.offset)
        }
        var total = 0
        for _ in 0..<count {
            let parts = try reader.array(least: 1)
            let number = try reader.unsigned()
            let shape = try reader.unsigned()
            guard number <= 5, let kind = Change.Kind(rawValue: UInt8(number)),
                shape < UInt64(shapes.count)
            else { throw DecodingFailure("unknown kind or shape", offset: reader.offset) }
            let row = RowID(try reader.signed())
            let isLink = kind == .link || kind == .unlink
            let target = isLink ? RowID(try reader.signed()) : nil
            let valueCount = shapes[Int(shape)].valueCount
            guard parts == 3 + (isLink ? 1 : 0) + valueCount, row.rawValue > 0,
                (target?.rawValue ?? 1) > 0
            else { throw DecodingFailure("a change does not fit its shape", offset: reader.offset) }
            total += valueCount
            guard total <= Bounds.values else {
                throw DecodingFailure("too many values", offset: reader.offset)
            }
            var values: [PropertyValue] = []
            values.reserveCapacity(valueCount)
            for _ in 0..<valueCount { values.append(try reader.value()) }
            take(Change(kind: kind, shape: Int(shape), row: row, target: target, values: values))
        }
        return (count, total)
    }

    /// A checksum of canonical bytes, to find damage in the log and on the wire.
    package static func checksum(_ bytes: [UInt8]) -> UInt64 {
        var hasher = StableHasher(seed: 2)
        hasher.combine(bytes)
        return hasher.finalize().0
    }
}

extension CBORWriter {
    /// Writes a change, as transactions hold it.
    package mutating func write(_ change: Change) {
        beginArray(3 + (change.target == nil ? 0 : 1) + change.values.count)
        write(UInt64(change.kind.rawValue))
        write(UInt64(change.shape))
        write(change.row.rawValue)
        if let target = change.target { write(target.rawValue) }
        for value in change.values { write(value) }
    }
}
