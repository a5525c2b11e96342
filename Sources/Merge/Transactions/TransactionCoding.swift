/// The canonical bytes of a transaction: the same in the log and on the wire.
///
/// Layout: one CBOR array of 12, or of 13 where there is a note
///
///     [format, node, incarnation, sequence, timestamp, seen, author, contextName, saveID,
///      (note,) modelHash, [shapes], [changes and runs]]
///     shape  = [entity, [assigned names], [carried names]]
///     change = [kind, shape, row, (target for links,) value ...]
///
/// The format is 2 where there are runs (``ChangeRun``), and 1 where there are none; with a note it is
/// 4 and 3. Format 1 of earlier programs has changes where there could be runs.
///
/// `seen` is the frontier of what the transaction has seen, to which the beginnings of its actors belong
/// (``Beginnings``), with the entry of the transaction's own actor in any case.
///
/// Downside: a change is only readable with the shapes before it. It buys a third of the bytes
/// of a bulk import.
extension Transaction {
    /// The formats' numbers. A transaction of any other is refused.
    static let formats: ClosedRange<UInt64> = 1...4

    /// Bounds of what a decoder accepts, each far above what the product writes itself.
    package enum Bounds {
        /// The most bytes of a transaction without runs: what its few bytes are applied as.
        package static let plainBytes = 512 * 1024 * 1024
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
        /// The longest note, in bytes of UTF-8.
        package static let noteBytes = 1_000
    }

    /// The canonical bytes.
    ///
    /// - Parameter frontier: of ``seen``, with its own actor's entry; nil where ``seen`` is that itself.
    package func encoded(telling frontier: VersionVector? = nil) -> [UInt8] {
        encodedTelling(frontier).bytes
    }

    /// The canonical bytes, and how many there were without runs, about.
    func encodedTelling(_ frontier: VersionVector?) -> (bytes: [UInt8], plainSize: Int) {
        var writer = CBORWriter(capacity: 160 + changes.count * 64)
        writer.beginArray(note == nil ? 12 : 13)
        let parts = ChangeRun.parts(of: changes)
        writer.write(UInt64((parts.count < changes.count ? 2 : 1) + (note == nil ? 0 : 2)))
        writer.write(UInt64(dot.actor.node.rawValue))
        writer.write(dot.actor.incarnation)
        writer.write(dot.sequence)
        writer.write(timestamp.rawValue)
        writer.write(frontier ?? seen)
        writer.write(author)
        writer.write(contextName)
        writer.write(saveID)
        if let note { writer.write(note) }
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
        writer.beginArray(parts.count)
        var unrolled = 0
        for part in parts {
            if part.count == 1 {
                writer.write(changes[part.lowerBound])
            } else {
                let valueBytes = writer.write(run: changes[part])
                unrolled += ChangeRun.plainSize(rows: part.count, valueBytes: valueBytes)
            }
        }
        return (writer.bytes, writer.bytes.count + unrolled)
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
        /// How many bytes there were without runs, about.
        var plainSize: Int
    }

    /// Reads canonical bytes likewise.
    ///
    /// - Parameter keepsChanges: whether shapes and changes are part of the answer; they are checked in
    ///   any case.
    static func decodeTold(
        _ bytes: [UInt8], keepsChanges: Bool
    ) throws(DecodingFailure) -> Told {
        var reader = CBORReader(bytes)
        let format = try format(from: &reader, isWhole: true)
        let told = try decode(
            from: &reader, hasNote: format > 2, hasRuns: format % 2 == 0,
            keepsChanges: keepsChanges)
        try reader.finish()
        return told
    }

    /// Whether canonical bytes that begin so have runs.
    package static func hasRuns(_ bytes: [UInt8]) -> Bool {
        bytes.count > 1 && (bytes[1] == 2 || bytes[1] == 4)
    }

    /// The name and the time of a transaction, read from the first bytes of its own: see ``headBytes``.
    package static func head(
        _ bytes: [UInt8]
    ) throws(DecodingFailure) -> (dot: Dot, timestamp: HybridTimestamp) {
        var reader = CBORReader(bytes)
        _ = try format(from: &reader, isWhole: false)
        let (actor, sequence, timestamp) = try head(from: &reader)
        return (Dot(actor: actor, sequence: sequence), timestamp)
    }

    /// As many bytes of a transaction as ``head(_:)`` needs: six numbers at the most.
    package static let headBytes = 64

    private static func head(
        from reader: inout CBORReader
    ) throws(DecodingFailure) -> (ActorID, UInt64, HybridTimestamp) {
        let actor = try reader.actor()
        let sequence = try reader.unsigned()
        guard sequence > 0 else {
            throw DecodingFailure("a sequence starts at 1", offset: reader.offset)
        }
        return (actor, sequence, try reader.timestamp())
    }

    /// Reads the number of parts and the format, which must be of one another.
    ///
    /// - Parameter isWhole: whether the bytes go on to the end of the transaction.
    private static func format(
        from reader: inout CBORReader, isWhole: Bool
    ) throws(DecodingFailure) -> UInt64 {
        let count = try reader.array(least: isWhole ? 1 : 0)
        let format = try reader.unsigned()
        guard formats.contains(format) else {
            throw DecodingFailure(
                "transaction format \(format) of a later program, or of one before 0.1.0",
                offset: reader.offset)
        }
        guard count == (format > 2 ? 13 : 12) else {
            throw DecodingFailure("\(count) parts in format \(format)", offset: reader.offset)
        }
        return format
    }

    /// Reads what stands before the changes, in a few bytes however many changes there are. They are not
    /// checked, and not part of the answer.
    package static func decodeHeading(_ bytes: [UInt8]) throws(DecodingFailure) -> Transaction {
        var reader = CBORReader(bytes)
        let format = try format(from: &reader, isWhole: true)
        return try decodeHeading(from: &reader, hasNote: format > 2)
    }

    /// Reads what stands behind the format.
    private static func decode(
        from reader: inout CBORReader, hasNote: Bool, hasRuns: Bool, keepsChanges: Bool
    ) throws(DecodingFailure) -> Told {
        var transaction = try decodeHeading(from: &reader, hasNote: hasNote)
        let shapes = try decodeShapes(from: &reader)
        var changes = ReadChanges(shapes: shapes, hasRuns: hasRuns, isKept: keepsChanges)
        try changes.read(from: &reader)
        if keepsChanges { transaction.shapes = shapes }
        transaction.changes = changes.changes
        return Told(
            transaction: transaction, changeCount: changes.count, valueCount: changes.valueCount,
            plainSize: reader.offset + changes.unrolled)
    }

    private static func decodeHeading(
        from reader: inout CBORReader, hasNote: Bool
    ) throws(DecodingFailure) -> Transaction {
        let (actor, sequence, timestamp) = try head(from: &reader)
        let seen = try reader.vector()
        guard seen[actor] == sequence - 1 else {
            throw DecodingFailure(
                "a transaction has seen exactly its actor's earlier ones", offset: reader.offset)
        }
        let author = try reader.optionalText()
        let contextName = try reader.optionalText()
        let saveID = try reader.optionalText()
        let note = hasNote ? try reader.text() : nil
        guard note?.utf8.count ?? 0 <= Bounds.noteBytes else {
            throw DecodingFailure("a note is too long", offset: reader.offset)
        }
        let modelHash = try reader.data()
        guard modelHash.count == 32 else {
            throw DecodingFailure("a model hash has 32 bytes", offset: reader.offset)
        }
        return Transaction(
            dot: Dot(actor: actor, sequence: sequence), timestamp: timestamp, seen: seen,
            author: author, contextName: contextName, saveID: saveID, note: note,
            modelHash: modelHash, shapes: [], changes: [])
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

    /// Writes changes that differ in their rows alone.
    ///
    /// - Returns: how many bytes their values take.
    fileprivate mutating func write(run changes: ArraySlice<Change>) -> Int {
        guard let first = changes.first else { return 0 }
        beginArray(3 + first.values.count)
        write(ChangeRun.mark + UInt64(first.kind.rawValue))
        write(UInt64(first.shape))
        let ranges = ChangeRun.ranges(of: changes)
        beginArray(ranges.count)
        for number in ranges { write(number) }
        let begin = bytes.count
        for value in first.values { write(value) }
        return bytes.count - begin
    }
}

/// The changes of a transaction's bytes, as they are read.
private struct ReadChanges {
    let shapes: [ChangeShape]
    /// Whether the format has runs: then there are some, and no changes that would be of one.
    let hasRuns: Bool
    /// Whether they are kept, and not only checked.
    let isKept: Bool
    private(set) var changes: [Change] = []
    private(set) var count = 0
    private(set) var valueCount = 0
    /// How many bytes more there were without runs, about.
    private(set) var unrolled = 0
    private var last: Change?

    init(shapes: [ChangeShape], hasRuns: Bool, isKept: Bool) {
        self.shapes = shapes
        self.hasRuns = hasRuns
        self.isKept = isKept
    }

    mutating func read(from reader: inout CBORReader) throws(DecodingFailure) {
        let parts = try reader.array(least: 4)
        guard parts <= Transaction.Bounds.changes else {
            throw DecodingFailure("too many changes", offset: reader.offset)
        }
        for _ in 0..<parts { try readPart(from: &reader) }
        guard !hasRuns || count > parts else {
            throw DecodingFailure("a format with runs, without a run", offset: reader.offset)
        }
    }

    private mutating func readPart(from reader: inout CBORReader) throws(DecodingFailure) {
        let parts = try reader.array(least: 1)
        let number = try reader.unsigned()
        let shape = try reader.unsigned()
        let isRun = hasRuns && number > ChangeRun.mark
        guard
            let kind = UInt8(exactly: isRun ? number - ChangeRun.mark : number)
                .flatMap({ Change.Kind(rawValue: $0) }), shape < UInt64(shapes.count),
            !isRun || kind == .update || kind == .delete
        else { throw DecodingFailure("unknown kind or shape", offset: reader.offset) }
        let isLink = kind == .link || kind == .unlink
        var ranges: [ClosedRange<Int64>] = []
        var rows = 1
        if isRun {
            rows = try ChangeRun.rows(
                from: &reader, limit: Transaction.Bounds.changes - count
            ) { ranges.append($0) }
        } else {
            let row = try reader.signed()
            guard row > 0, count < Transaction.Bounds.changes else {
                throw DecodingFailure("a change does not fit its shape", offset: reader.offset)
            }
            ranges = [row...row]
        }
        let target = isLink ? RowID(try reader.signed()) : nil
        let valuesHere = shapes[Int(shape)].valueCount
        guard parts == 3 + (isLink ? 1 : 0) + valuesHere, (target?.rawValue ?? 1) > 0 else {
            throw DecodingFailure("a change does not fit its shape", offset: reader.offset)
        }
        count += rows
        valueCount += valuesHere * rows
        guard valueCount <= Transaction.Bounds.values else {
            throw DecodingFailure("too many values", offset: reader.offset)
        }
        var values: [PropertyValue] = []
        values.reserveCapacity(valuesHere)
        let begin = reader.offset
        for _ in 0..<valuesHere { values.append(try reader.value()) }
        if isRun {
            unrolled += ChangeRun.plainSize(rows: rows, valueBytes: reader.offset - begin)
            guard unrolled <= Transaction.Bounds.plainBytes else {
                throw DecodingFailure("a run of too many bytes", offset: reader.offset)
            }
        }
        func change(_ row: Int64) -> Change {
            Change(
                kind: kind, shape: Int(shape), row: RowID(row), target: target, values: values)
        }
        if hasRuns, let first = ranges.first?.lowerBound, let end = ranges.last?.upperBound {
            if let last, ChangeRun.goesOn(last, with: change(first)) {
                throw DecodingFailure("a run that could be longer", offset: reader.offset)
            }
            last = change(end)
        }
        guard isKept else { return }
        for range in ranges {
            for row in range { changes.append(change(row)) }
        }
    }
}
