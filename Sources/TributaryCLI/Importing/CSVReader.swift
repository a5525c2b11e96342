// Comma-separated values (RFC 4180): a header row, fields in double quotes where they need it.

import Console
import Coordinator

/// Reads CSV. A field that is empty without quotes is null; one that is `""` is an empty text.
struct CSVReader: RecordReader {
    private let source: ByteSource
    private let delimiter: UInt8
    private var header: [String] = []
    /// After a stray quote nobody can tell where the next record begins.
    private(set) var canResume = true

    /// Reads the header row.
    ///
    /// - Parameter delimiter: what separates fields: an ASCII character, but no quote and no line end.
    /// - Throws: ``RecordError`` where there is none, or a name occurs twice.
    init(_ source: ByteSource, delimiter: UInt8 = UInt8(ascii: ",")) throws {
        self.source = source
        self.delimiter = delimiter
        guard let names = try row()?.values.map({ $0 ?? "" }) else {
            throw RecordError(line: 1, "there is no header row")
        }
        for (index, name) in names.enumerated() where names[..<index].contains(name) {
            throw RecordError(line: 1, "the column \"\(name)\" occurs twice")
        }
        for (other, text) in [(";", "';'"), ("\t", "tab")]
        where names.count == 1 && names[0].contains(other) {
            throw RecordError(
                line: 1,
                "the header is one column, \"\(names[0])\"; say --delimiter \(text) if that separates them"
            )
        }
        header = names
    }

    /// Reads what `--delimiter` says: one ASCII character, or `tab`.
    ///
    /// - Throws: ``CommandFailure`` where it cannot separate fields.
    static func delimiter(_ text: String) throws -> UInt8 {
        if text == "tab" || text == "\\t" { return 0x09 }
        guard text.utf8.count == 1, let byte = text.utf8.first, byte != UInt8(ascii: "\""),
            byte != 0x0A,
            byte != 0x0D
        else {
            throw CommandFailure.usage(
                "--delimiter is one ASCII character, such as ';', or tab, and not \(DisplayText.line(text))."
            )
        }
        return byte
    }

    var columns: [String]? { header }

    mutating func next() throws -> ImportRecord? {
        while let (line, values) = try row() {
            if values == [nil], header.count > 1 { continue }
            guard values.count == header.count else {
                throw RecordError(
                    line: line, "\(values.count) fields, but the header has \(header.count)")
            }
            var fields = JSONObject()
            for (name, value) in zip(header, values) {
                fields[name] = value.map { .string($0) } ?? .null
            }
            return ImportRecord(line: line, fields: fields)
        }
        return nil
    }

    /// One row, with nil for fields that are empty without quotes; nil at the end.
    private mutating func row() throws -> (line: Int, values: [String?])? {
        guard try source.peek() != nil else { return nil }
        let line = source.line
        var values: [String?] = []
        var size = 0
        while true {
            let (bytes, isLast) = try field(line)
            size += bytes?.count ?? 0
            guard size <= ByteSource.maximumRecordBytes else {
                canResume = false
                throw RecordError(line: line, "the record is over 16 MiB long")
            }
            let text = bytes.map { String(validating: $0, as: UTF8.self) }
            if case .some(nil) = text {
                while !isLast, try !field(line).isLast {}
                throw RecordError(line: line, "field \(values.count + 1) is not UTF-8")
            }
            values.append(text ?? nil)
            if isLast { return (line, values) }
        }
    }

    /// One field with what ends it; no bytes where it is empty without quotes.
    private mutating func field(_ line: Int) throws -> (bytes: [UInt8]?, isLast: Bool) {
        var bytes: [UInt8] = []
        if try source.peek() == UInt8(ascii: "\"") {
            _ = try source.take()
            try quoted(line, into: &bytes)
            guard let byte = try source.take() else { return (bytes, true) }
            if let isLast = try end(byte) { return (bytes, isLast) }
            canResume = false
            throw RecordError(line: line, "something follows a closing quote")
        }
        while let byte = try source.take() {
            if let isLast = try end(byte) { return (bytes.isEmpty ? nil : bytes, isLast) }
            guard byte != UInt8(ascii: "\"") else {
                canResume = false
                throw RecordError(line: line, "a quote within a field that is not quoted")
            }
            bytes.append(byte)
            guard bytes.count <= ByteSource.maximumRecordBytes else { break }
        }
        return (bytes.isEmpty ? nil : bytes, true)
    }

    /// Whether a byte ends a row, true, or a field only, false; nil where it ends neither. A row ends
    /// with LF, CR LF, or CR.
    private func end(_ byte: UInt8) throws -> Bool? {
        switch byte {
        case delimiter: return false
        case 0x0A: return true
        case 0x0D:
            if try source.peek() == 0x0A { _ = try source.take() } else { source.countLine() }
            return true
        default: return nil
        }
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
