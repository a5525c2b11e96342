// Comma-separated values (RFC 4180): a header row, fields in double quotes where they need it.

import Coordinator

/// Reads CSV.
struct CSVReader: RecordReader {
    private let source: ByteSource
    private var header: [String] = []
    /// After a stray quote nobody can tell where the next record begins.
    private(set) var canResume = true

    /// Reads the header row.
    ///
    /// - Throws: ``RecordError`` where there is none, or a name occurs twice.
    init(_ source: ByteSource) throws {
        self.source = source
        // Spreadsheets put a byte order mark in front, also of a field in quotes.
        try source.skip([0xEF, 0xBB, 0xBF])
        guard let names = try row()?.values else {
            throw RecordError(line: 1, "there is no header row")
        }
        for (index, name) in names.enumerated() where names[..<index].contains(name) {
            throw RecordError(line: 1, "the column \"\(name)\" occurs twice")
        }
        header = names
    }

    /// The names of the columns.
    var columns: [String] { header }

    mutating func next() throws -> ImportRecord? {
        while let (line, values) = try row() {
            if values == [""], header.count > 1 { continue }
            guard values.count == header.count else {
                throw RecordError(
                    line: line, "\(values.count) fields, but the header has \(header.count)")
            }
            var fields = JSONObject()
            for (name, value) in zip(header, values) { fields[name] = .string(value) }
            return ImportRecord(line: line, fields: fields)
        }
        return nil
    }

    /// One row; nil at the end.
    private mutating func row() throws -> (line: Int, values: [String])? {
        guard try source.peek() != nil else { return nil }
        let line = source.line
        var values: [String] = []
        var size = 0
        while true {
            let (bytes, isLast) = try field(line)
            size += bytes.count
            guard size <= ByteSource.maximumRecordBytes else {
                canResume = false
                throw RecordError(line: line, "the record is over 16 MiB long")
            }
            values.append(String(decoding: bytes, as: UTF8.self))
            guard String(validating: bytes, as: UTF8.self) != nil else {
                if !isLast { _ = try source.takeLine() }
                throw RecordError(line: line, "field \(values.count) is not UTF-8")
            }
            if isLast { return (line, values) }
        }
    }

    /// One field with what ends it.
    private mutating func field(_ line: Int) throws -> (bytes: [UInt8], isLast: Bool) {
        var bytes: [UInt8] = []
        if try source.peek() == UInt8(ascii: "\"") {
            _ = try source.take()
            try quoted(line, into: &bytes)
            switch try source.take() {
            case nil: return (bytes, true)
            case UInt8(ascii: ","): return (bytes, false)
            case 0x0A: return (bytes, true)
            case 0x0D where try source.peek() == 0x0A:
                _ = try source.take()
                return (bytes, true)
            default:
                canResume = false
                throw RecordError(line: line, "something follows a closing quote")
            }
        }
        while let byte = try source.take() {
            switch byte {
            case UInt8(ascii: ","): return (bytes, false)
            case 0x0A:
                if bytes.last == 0x0D { bytes.removeLast() }
                return (bytes, true)
            case UInt8(ascii: "\""):
                canResume = false
                throw RecordError(line: line, "a quote within a field that is not quoted")
            default: bytes.append(byte)
            }
        }
        return (bytes, true)
    }

    private mutating func quoted(_ line: Int, into bytes: inout [UInt8]) throws {
        while let byte = try source.take() {
            if byte == UInt8(ascii: "\"") {
                guard try source.peek() == byte else { return }
                _ = try source.take()
            }
            bytes.append(byte)
            guard bytes.count <= ByteSource.maximumRecordBytes else { break }
        }
        canResume = false
        throw RecordError(line: line, "a quoted field does not end")
    }
}
