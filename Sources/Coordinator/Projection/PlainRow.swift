import Merge

/// A living row in the form that nearly all have: shown by itself, each property a register of its own, and
/// of no property two writes that are concurrent.
///
/// It is written again from what its table has, without making its registers: that takes a large save a
/// fraction of the time. ``LoadedRow`` is any row.
struct PlainRow {
    /// The name and the time of a write, as the store's bytes have them.
    struct Write: Equatable {
        /// The dot's integer, see ``ActorTable``.
        let dot: Int64
        let timestamp: UInt64
    }

    let row: RowID
    /// The write that inserted it.
    let insertion: Write
    /// The last write: the row's version.
    private(set) var latest: Write
    /// What its properties show, by position.
    private(set) var columns: [PropertyValue]
    /// The last writes of properties that were written since the insertion; by position.
    private(set) var written: [(position: Int, write: Write)]

    /// A row that was not written since its insertion.
    init(_ row: RowID, insertion: Write, columns: [PropertyValue]) {
        self.row = row
        self.insertion = insertion
        latest = insertion
        self.columns = columns
        written = []
    }

    /// Reads a row's registers; nil where they are of another form.
    ///
    /// - Throws: ``DecodingFailure``.
    init?(
        _ row: RowID, latest: Write, registers: [UInt8], columns: [PropertyValue],
        _ table: EntityTable
    ) throws(DecodingFailure) {
        var reader = CBORReader(registers)
        let parts = try reader.array()
        guard parts >= 3, try reader.array() == 2 else { return nil }
        insertion = try Self.write(&reader)
        guard try reader.array() == 1, try reader.array() == 3, try Self.write(&reader) == latest,
            try reader.unsigned() == 0, try reader.array() == 0
        else { return nil }
        written = []
        written.reserveCapacity(parts - 3)
        for _ in 3..<parts {
            guard try reader.array() == 3,
                let position = table.positionsByCode[try reader.signed()],
                written.last.map({ $0.position < position }) ?? true
            else { return nil }
            written.append((position, try Self.write(&reader)))
        }
        try reader.finish()
        self.row = row
        self.latest = latest
        self.columns = columns
    }

    private static func write(_ reader: inout CBORReader) throws(DecodingFailure) -> Write {
        Write(dot: try reader.signed(), timestamp: try reader.unsigned())
    }

    /// The time of the newest write that it shows a value of.
    var newest: HybridTimestamp {
        let newest = written.reduce(insertion.timestamp) { max($0, $1.write.timestamp) }
        return HybridTimestamp(rawValue: newest) ?? .zero
    }

    /// Assigns values, as a write that has seen ``latest``.
    mutating func assign(_ values: [PropertyValue], at positions: [Int], _ write: Write) {
        latest = write
        for (position, value) in zip(positions, values) {
            columns[position] = value
            let place = written.firstIndex { $0.position >= position } ?? written.endIndex
            if place < written.endIndex, written[place].position == position {
                written[place].write = write
            } else {
                written.insert((position, write), at: place)
            }
        }
    }

    /// Its registers, once it has been written since its insertion; see ``RowCoding``.
    func registers(_ table: EntityTable) -> [UInt8] {
        var writer = CBORWriter(capacity: 32 + written.count * 16)
        writer.beginArray(3 + written.count)
        writeHead(existence: 0, by: latest, to: &writer)
        for (position, write) in written {
            writer.beginArray(3)
            writer.write(table.propertyCodes[position])
            Self.write(write, to: &writer)
        }
        return writer.bytes
    }

    /// The registers of its tombstone, where a write that has seen ``latest`` deletes it.
    func tombstone(_ table: EntityTable, by write: Write) -> [UInt8] {
        var writer = CBORWriter(capacity: 64 + columns.count * 32)
        writer.beginArray(3 + columns.count)
        writeHead(existence: 1, by: write, to: &writer)
        var others = written[...]
        for (position, value) in columns.enumerated() {
            writer.beginArray(4)
            writer.write(table.propertyCodes[position])
            if let other = others.first, other.position == position {
                others.removeFirst()
                Self.write(other.write, to: &writer)
            } else {
                Self.write(insertion, to: &writer)
            }
            writer.write(value)
        }
        return writer.bytes
    }

    private func writeHead(existence: UInt64, by write: Write, to writer: inout CBORWriter) {
        writer.beginArray(2)
        Self.write(insertion, to: &writer)
        writer.beginArray(1)
        writer.beginArray(3)
        Self.write(write, to: &writer)
        writer.write(existence)
        writer.beginArray(0)
    }

    private static func write(_ write: Write, to writer: inout CBORWriter) {
        writer.write(write.dot)
        writer.write(write.timestamp)
    }

    /// Its hash in the store's digest; see ``RowDigest``.
    func hash(_ table: EntityTable, _ actors: ActorTable) throws -> (UInt64, UInt64) {
        let names = table.entity.digestNames
        let inserted = try actors.dot(insertion.dot)
        var hasher = RowHasher(entity: names.entity, row: row, insertion: inserted)
        var others = written[...]
        for (position, value) in columns.enumerated() {
            var dot = inserted
            if let other = others.first, other.position == position {
                others.removeFirst()
                dot = try actors.dot(other.write.dot)
            }
            hasher.combine(property: names.properties[position], value: value, dot: dot)
        }
        return hasher.finalize()
    }
}
