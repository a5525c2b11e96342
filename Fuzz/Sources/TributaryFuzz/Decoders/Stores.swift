import Foundation
import GRDB

@testable import Coordinator
@testable import Merge

extension Decoder {
    /// The records that a store keeps as bytes: a row's registers, links, conflicts, answers.
    ///
    /// Input: a byte that says which, then the bytes.
    static let records = Decoder(
        name: "records", maximumLength: 2048,
        seeds: { _ in RecordSamples.all() },
        run: { bytes in
            guard let kind = bytes.first else { return }
            let record = Array(bytes.dropFirst())
            let actors = EngineWorld.shared.engine.state.actors
            switch kind % 8 {
            case 0: checkLink(record, actors)
            case 1:
                let conflict = attempt(throwing: CoordinatorError.self) {
                    try ConflictCoding.decode(
                        record, id: ConflictID(entity: "Person", row: RowID(1), subject: "name"),
                        openedAt: 1)
                }
                if let conflict { _ = ConflictCoding.encode(conflict) }
            case 2:
                let answer = attempt(throwing: CoordinatorError.self) {
                    try SaveAnswer.decode(record, Beginnings())
                }
                if let answer { _ = SaveAnswer.encode(answer, Beginnings()) }
            case let kind:
                let name = ["Person", "Employee", "Note", "Key", "Group"][Int(kind) - 3]
                for hasColumns in [false, true] {
                    checkRow(record, EngineWorld.shared.engine.table(name), actors, hasColumns)
                }
            }
        })

    private static func checkLink(_ record: [UInt8], _ actors: ActorTable) {
        let register = attempt(throwing: CoordinatorError.self) {
            try LinkCoding.decode(record, actors: actors)
        }
        guard let register else { return }
        for policy in MergePolicy.allCases { _ = LinkCoding.isAlive(register, policy: policy) }
        let written = LinkCoding.encode(register, actors: actors)
        demand(
            attempt(
                throwing: CoordinatorError.self,
                { try LinkCoding.decode(written, actors: actors) })
                == register, "a link reads otherwise")
    }

    private static func checkRow(
        _ record: [UInt8], _ table: EntityTable, _ actors: ActorTable, _ hasColumns: Bool
    ) {
        let columns = hasColumns ? table.entity.properties.map { _ in PropertyValue.null } : nil
        let coding = RowCoding(table: table, actors: actors)
        let state = attempt(throwing: CoordinatorError.self) {
            try coding.decode(
                version: 1 << ActorTable.sequenceBits | 1, timestamp: 1, registers: record,
                columns: columns)
        }
        guard let state else { return }
        _ = state.version
        _ = state.conflicts(table.entity.policies)
        _ = RowDigest.hash(
            LoadedRow(
                table: table, row: RowID(1), state: state, isAlive: hasColumns,
                columns: columns ?? []))
        _ = coding.encode(state, columns: columns)
    }

    /// A store's file in which values are changed by SQL, so that SQLite finds nothing wrong.
    ///
    /// Input: changes of a table, a row, a column, a kind of value, and the value as a part.
    static let cells = Decoder(
        name: "cells", maximumLength: 512,
        seeds: { random in
            (0..<40).map { _ in
                (0..<1 + random.below(3)).flatMap { _ in
                    (0..<4).map { _ in UInt8(random.below(64)) }
                        + InputReader.part(
                            (0..<random.below(10)).map { _ in UInt8(random.below(256)) })
                }
            }
        },
        run: { bytes in
            var reader = InputReader(bytes)
            StoreFile.shared.open { try changeCells(&reader, in: $0) }
        })

    /// Makes the changes of values that an input tells.
    static func changeCells(_ reader: inout InputReader, in database: Database) throws {
        let tables = try String.fetchAll(
            database, sql: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        var count = 0
        while !reader.isAtEnd, count < 16 {
            count += 1
            let table = tables[Int(reader.byte()) % tables.count]
            try change(table, &reader, in: database)
        }
    }

    private static func change(
        _ table: String, _ reader: inout InputReader, in database: Database
    ) throws {
        let quoted = EntityTable.quote(table)
        let names = try String.fetchAll(
            database, sql: "SELECT name FROM pragma_table_info(?) ORDER BY cid",
            arguments: [table])
        let row = Int(reader.byte())
        let name = EntityTable.quote(names[Int(reader.byte()) % names.count])
        let kind = reader.byte()
        let part = reader.part()
        var value: DatabaseValue
        switch kind % 5 {
        case 0: value = .null
        case 1: value = String(decoding: part, as: UTF8.self).databaseValue
        case 2: value = part.reduce(Int64(0)) { $0 << 8 | Int64($1) }.databaseValue
        case 3: value = Double(part.count).databaseValue
        default: value = RecordSamples.data(part)
        }
        if kind & 0x80 != 0,
            let old = try Int64.fetchOne(
                database, sql: "SELECT \(name) FROM \(quoted) WHERE typeof(\(name)) = 'integer'")
        {
            value = (old ^ (1 << Int64(kind & 63))).databaseValue
        }
        let primary = try String.fetchAll(
            database, sql: "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
            arguments: [table]
        ).map(EntityTable.quote).joined(separator: ", ")
        let key = primary.isEmpty ? "rowid" : primary
        // A strict table refuses a value of another type, and a key one that is taken.
        try? database.execute(
            sql: """
                UPDATE \(quoted) SET \(name) = ? WHERE (\(key)) IN (SELECT \(key) FROM \(quoted)
                    ORDER BY \(key) LIMIT 1 OFFSET ? % max(1, (SELECT count(*) FROM \(quoted))))
                """, arguments: [value, row])
    }

    /// A store's file with changed bytes.
    ///
    /// Input: changes of a place in three bytes and what is put there, as a part.
    static let store = Decoder(
        name: "store", maximumLength: 256,
        seeds: { random in
            // Not the file's own size, which another layout or SQLite would change.
            let size = 1 << 18
            return (0..<40).map { _ in
                (0..<1 + random.below(3)).flatMap { _ in
                    let place = random.chance(30) ? random.below(100) : random.below(size)
                    return [UInt8(place >> 16), UInt8(place >> 8 & 255), UInt8(place & 255)]
                        + InputReader.part(
                            (0...random.below(3)).map { _ in UInt8(random.below(256)) })
                }
            }
        },
        run: { input in
            var reader = InputReader(input)
            StoreFile.shared.open(changeBytes(StoreFile.shared.bytes, &reader))
        })

    /// Makes the changes of a file's bytes that an input tells.
    static func changeBytes(_ sound: [UInt8], _ reader: inout InputReader) -> [UInt8] {
        var bytes = sound
        while !reader.isAtEnd {
            let place = Int(reader.number(bytes: 3)) % bytes.count
            for (index, byte) in reader.part().prefix(bytes.count - place).enumerated() {
                bytes[place + index] = byte
            }
        }
        return bytes
    }
}

/// Records as the engine writes them.
enum RecordSamples {
    static func data(_ bytes: [UInt8]) -> DatabaseValue { Data(bytes).databaseValue }

    static func all() -> [[UInt8]] {
        var result: [[UInt8]] = []
        must {
            try EngineWorld.shared.queue.unsafeRead { database in
                func add(_ kind: UInt8, _ sql: String) throws {
                    for bytes in try Data.fetchAll(database, sql: sql) {
                        result.append([kind] + Array(bytes))
                    }
                }
                try add(0, "SELECT _siblings FROM \"Group.members\" LIMIT 3")
                try add(1, "SELECT record FROM _conflict")
                try add(3, "SELECT _registers FROM Person WHERE _registers IS NOT NULL")
                try add(3, "SELECT registers FROM _tombstone")
                try add(4, "SELECT registers FROM _tombstone")
            }
        }
        let dot = Dot(actor: SampleRows.strangers[0], sequence: 1)
        let answer = SaveResult(
            transaction: dot, timestamp: .zero, seen: VersionVector(),
            token: QueryGenerationToken(
                store: 1, generation: 2, position: 3, versionVector: VersionVector()),
            insertedRows: [
                .init(temporary: RowID(-1), row: RowID(7), entityName: "Person", name: "@a")
            ], conflicts: [ConflictID(entity: "Person", row: RowID(7), subject: "name")], rows: [])
        for fingerprint in [nil, [UInt8](0..<16)] {
            let kept = SaveAnswer.Kept(result: answer, fingerprint: fingerprint)
            result.append([2] + SaveAnswer.encode(kept, Beginnings()))
        }
        result += RegisterSamples.all()
        return result
    }
}
