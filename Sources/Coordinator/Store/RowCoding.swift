import Merge

/// The registers of a row as bytes: what column `_registers` and a tombstone hold.
///
/// A row nobody has updated has none: NULL means that its existence, its insertion and all its
/// properties were written by the transaction in `_version` at `_timestamp`. Otherwise
///
///     [insertion, existence, collapsed, property ...]
///     insertion = [dot, timestamp ...]
///     existence = [dot, timestamp, kind, (count, (code, value) ...) ...]
///         kind 0 alive, 1 dead, 2 whole with the values in the columns, 3 whole, values here
///     collapsed = [dot ...]
///     property  = [code, dot, timestamp]              one sibling, its value in the column
///               | [code, (dot, timestamp, value) ...] siblings with their values
///               | [0, dot, code ...]                  exceptions of an insertion
///               | [-1, row, dot ...]                  a row that this one eclipses, its version
///
/// A property that is not listed was written by the first insertion, or never, and its value is
/// in the column. In a tombstone there are no columns, so every value is here.
struct RowCoding {
    let table: EntityTable
    let actors: ActorTable

    /// The bytes, or nil where `_version` and `_timestamp` say it all.
    ///
    /// - Parameters:
    ///   - columns: the projected values the row's columns hold; nil for a tombstone.
    ///   - eclipsed: of a survivor, the versions of the rows it eclipses.
    func encode(
        _ state: RowState, columns: [PropertyValue]?, eclipsed: [RowVersion.Eclipsed] = []
    ) -> [UInt8]? {
        let policies = table.policies(for: state)
        let insertion = state.insertion.siblings
        // One insertion alone stands in for nobody but itself.
        let given = insertion.count > 1 ? givenByModels(insertion) : [:]
        var properties: [(Int, Register<PropertyValue>, explicit: Bool)] = []
        for (position, register) in state.properties.enumerated() {
            let siblings = register.siblings
            if siblings.isEmpty {
                // What another row of the group gives it must not pass for its own; where the row is one
                // register, that has its own.
                guard !policies.isRowGrained, let columns, !columns[position].isNull,
                    let first = insertion.first
                else { continue }
                let null = Sibling(stamp: first.stamp, value: PropertyValue.null)
                properties.append((position, Register(null), true))
                continue
            }
            let inColumn = siblings.count == 1 && columns?[position] == siblings[0].value
            if inColumn, siblings[0].stamp == insertion.first?.stamp,
                stoodIn(given[position], in: columns, at: position) == nil
            {
                continue
            }
            properties.append((position, register, !inColumn))
        }
        let existence = state.existence.siblings
        if let columns, existence.count == 1, insertion.count == 1,
            existence[0].stamp == insertion[0].stamp, state.collapsedDots.isEmpty,
            properties.isEmpty, state.exceptions.isEmpty, eclipsed.isEmpty
        {
            switch existence[0].value {
            case .alive: return nil
            case .whole(let values) where values == columns: return nil
            case .whole, .dead: break
            }
        }

        var writer = CBORWriter(capacity: 64)
        writer.beginArray(3 + properties.count + state.exceptions.count + eclipsed.count)
        writer.beginArray(insertion.count * 2)
        for sibling in insertion { write(sibling.stamp, to: &writer) }
        write(
            existence, visible: columns == nil ? nil : state.visibleWhole(policies)?.dot,
            columns: columns, to: &writer)
        writer.beginArray(state.collapsedDots.count)
        for dot in state.collapsedDots { writer.write(actors.integer(dot)) }
        for (position, register, explicit) in properties {
            let siblings = register.siblings
            writer.beginArray(explicit ? 1 + siblings.count * 3 : 3)
            writer.write(table.propertyCodes[position])
            for sibling in siblings {
                write(sibling.stamp, to: &writer)
                if explicit { writer.write(sibling.value) }
            }
        }
        for exception in state.exceptions {
            writer.beginArray(2 + exception.positions.count)
            writer.write(Int64(0))
            writer.write(actors.integer(exception.dot))
            for position in exception.positions { writer.write(table.propertyCodes[position]) }
        }
        for member in eclipsed {
            writer.beginArray(2 + member.dots.count)
            writer.write(Int64(-1))
            writer.write(member.row.rawValue)
            for dot in member.dots { writer.write(actors.integer(dot)) }
        }
        return writer.bytes
    }

    private func write(_ stamp: Stamp, to writer: inout CBORWriter) {
        writer.write(actors.integer(stamp.dot))
        writer.write(stamp.timestamp.rawValue)
    }

    private func write(
        _ siblings: [Sibling<Existence>], visible: Dot?, columns: [PropertyValue]?,
        to writer: inout CBORWriter
    ) {
        writer.beginArray(siblings.count)
        for sibling in siblings {
            var values: [PropertyValue] = []
            var kind: UInt64 = 0
            switch sibling.value {
            case .alive: kind = 0
            case .dead: kind = 1
            case .whole(let row):
                let inColumns = visible == sibling.dot && columns == row
                kind = inColumns ? 2 : 3
                if !inColumns { values = row }
            }
            writer.beginArray(3 + values.count * 2)
            write(sibling.stamp, to: &writer)
            writer.write(kind)
            for (position, value) in values.enumerated() {
                writer.write(table.propertyCodes[position])
                writer.write(value)
            }
        }
    }

    /// Restores a row's registers.
    ///
    /// - Throws: ``CoordinatorError`` (`storeDamaged`) where the bytes are not what `encode` gave.
    func decode(
        version: Int64, timestamp: Int64, registers: [UInt8]?, columns: [PropertyValue]?
    ) throws -> RowState {
        var eclipsed: [RowVersion.Eclipsed] = []
        return try decode(
            version: version, timestamp: timestamp, registers: registers, columns: columns,
            eclipsed: &eclipsed)
    }

    /// The same, with the versions of the rows that the row eclipses.
    func decode(
        version: Int64, timestamp: Int64, registers: [UInt8]?, columns: [PropertyValue]?,
        eclipsed: inout [RowVersion.Eclipsed]
    ) throws -> RowState {
        let propertyCount = table.entity.properties.count
        guard let registers else {
            var state = RowState(
                insertedBy: try actors.stamp(version: version, timestamp: timestamp),
                values: columns ?? [PropertyValue](repeating: .null, count: propertyCount),
                isRowGrained: table.entity.policies.isRowGrained)
            supplement(&state, listed: [], columns: columns)
            return state
        }
        let state = RowState(propertyCount: propertyCount)
        do {
            return try decode(registers, into: state, columns: columns, eclipsed: &eclipsed)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(
                .storeDamaged,
                "The registers of a row of \(table.entity.name) are damaged: "
                    + "\(failure).")
        }
    }

    private func decode(
        _ bytes: [UInt8], into empty: RowState, columns: [PropertyValue]?,
        eclipsed: inout [RowVersion.Eclipsed]
    ) throws -> RowState {
        var state = empty
        var reader = CBORReader(bytes)
        let parts = try reader.array()
        guard parts >= 3 else { throw DecodingFailure("too short", offset: 0) }
        var insertion: [Sibling<Bool>] = []
        for _ in 0..<(try reader.array() / 2) {
            insertion.append(Sibling(stamp: try stamp(&reader), value: true))
        }
        state.insertion = Register(siblings: insertion)
        var existence: [Sibling<Existence>] = []
        for _ in 0..<(try reader.array()) {
            existence.append(try existenceSibling(&reader, columns: columns))
        }
        state.existence = Register(siblings: existence)
        for _ in 0..<(try reader.array()) {
            state.collapsedDots.append(try actors.dot(try reader.signed()))
        }
        if !table.entity.policies.isRowGrained, let columns,
            let first = state.insertion.siblings.first
        {
            state.properties = RowState.registers(columns, writtenBy: first.stamp)
        }
        var listed = Set<Int>()
        for _ in 3..<parts {
            let count = try reader.array()
            let code = try reader.signed()
            if code <= 0 {
                try readExtra(code, count: count, &reader, &state, &eclipsed)
                continue
            }
            guard let position = table.positionsByCode[code] else {
                // A migration has taken the property away.
                for _ in 0..<(count == 3 ? 1 : (count - 1) / 3) {
                    _ = try stamp(&reader)
                    if count != 3 { _ = try reader.value() }
                }
                continue
            }
            listed.insert(position)
            var siblings: [Sibling<PropertyValue>] = []
            if count == 3 {
                guard let columns else {
                    throw DecodingFailure("no column here", offset: reader.offset)
                }
                siblings.append(Sibling(stamp: try stamp(&reader), value: columns[position]))
            } else {
                for _ in 0..<(count - 1) / 3 {
                    siblings.append(
                        Sibling(stamp: try stamp(&reader), value: try reader.value()))
                }
            }
            state.properties[position] = Register(siblings: siblings)
        }
        try reader.finish()
        supplement(&state, listed: listed, columns: columns)
        return state
    }

    /// Adds what a row was given by its insertion's standing in for a model that lacked a
    /// property: the same as where the insertion was applied by the store's own model.
    private func supplement(
        _ state: inout RowState, listed: Set<Int>, columns: [PropertyValue]?
    ) {
        let values = givenByModels(state.insertion.siblings)
        if values.isEmpty { return }
        for (position, entries) in values where !listed.contains(position) {
            if let entries = stoodIn(entries, in: columns, at: position) {
                state.properties[position] = Register(siblings: entries)
            }
        }
        if table.constraints.isEmpty { return }
        for sibling in state.insertion.siblings {
            let positions = values.filter { position, entries in
                entries.contains { $0.stamp == sibling.stamp && !$0.value.isNull }
                    && state.properties[position].siblings.contains { $0.dot == sibling.dot }
            }.map(\.key)
            let known = state.exceptions.first { $0.dot == sibling.dot }?.positions ?? []
            let all = Set(known).union(positions).sorted()
            if all == known { continue }
            state.exceptions.removeAll { $0.dot == sibling.dot }
            state.exceptions.append(InsertionException(dot: sibling.dot, positions: all))
            state.exceptions.sort { $0.dot < $1.dot }
        }
    }

    /// The values that insertions gave properties that their writers' models lack, earliest first,
    /// by position.
    private func givenByModels(_ insertions: [Sibling<Bool>]) -> [Int: [Sibling<PropertyValue>]] {
        guard !table.history.isPlain, !table.entity.policies.isRowGrained else { return [:] }
        var given: [Int: [Sibling<PropertyValue>]] = [:]
        for insertion in insertions {
            for (position, value) in table.absent(of: insertion.dot.actor) {
                given[position, default: []].append(Sibling(stamp: insertion.stamp, value: value))
            }
        }
        return given
    }

    /// The register of a property that is not listed, as far as models give it; nil if it is the
    /// first insertion's. A writer must ask this before it leaves out what is the first insertion's
    /// own, or it comes back as the other's.
    private func stoodIn(
        _ given: [Sibling<PropertyValue>]?, in columns: [PropertyValue]?, at position: Int
    ) -> [Sibling<PropertyValue>]? {
        guard let given else { return nil }
        if let columns, columns[position] != given[0].value { return nil }
        return given
    }

    private func readExtra(
        _ code: Int64, count: Int, _ reader: inout CBORReader, _ state: inout RowState,
        _ eclipsed: inout [RowVersion.Eclipsed]
    ) throws {
        guard count >= 2 else { throw DecodingFailure("too short", offset: reader.offset) }
        if code == 0 {
            let dot = try actors.dot(try reader.signed())
            var positions: [Int] = []
            for _ in 2..<count {
                if let position = table.positionsByCode[try reader.signed()] {
                    positions.append(position)
                }
            }
            state.exceptions.append(InsertionException(dot: dot, positions: positions.sorted()))
        } else {
            let row = RowID(try reader.signed())
            var dots: [Dot] = []
            for _ in 2..<count { dots.append(try actors.dot(try reader.signed())) }
            eclipsed.append(RowVersion.Eclipsed(row: row, dots: dots))
        }
    }

    private func existenceSibling(
        _ reader: inout CBORReader, columns: [PropertyValue]?
    ) throws -> Sibling<Existence> {
        let count = try reader.array()
        let stamp = try stamp(&reader)
        switch try reader.unsigned() {
        case 0: return Sibling(stamp: stamp, value: .alive)
        case 1: return Sibling(stamp: stamp, value: .dead)
        case 2:
            guard let columns else {
                throw DecodingFailure("no columns here", offset: reader.offset)
            }
            return Sibling(stamp: stamp, value: .whole(columns))
        case 3:
            var row = [PropertyValue](
                repeating: .null, count: table.entity.properties.count)
            for (position, value) in table.absent(of: stamp.dot.actor) { row[position] = value }
            for _ in 0..<max(0, (count - 3) / 2) {
                let code = try reader.signed()
                let value = try reader.value()
                if let position = table.positionsByCode[code] { row[position] = value }
            }
            return Sibling(stamp: stamp, value: .whole(row))
        default: throw DecodingFailure("unknown existence", offset: reader.offset)
        }
    }

    private func stamp(_ reader: inout CBORReader) throws -> Stamp {
        let dot = try reader.signed()
        guard let timestamp = HybridTimestamp(rawValue: try reader.unsigned()) else {
            throw DecodingFailure("a timestamp is out of range", offset: 0)
        }
        return Stamp(timestamp: timestamp, dot: try actors.dot(dot))
    }
}
