// Records of a file, whatever its format.

import Console
import Coordinator

/// A record: values by column, as they were read.
struct ImportRecord: Hashable {
    /// The line where it begins, from 1.
    let line: Int
    /// Its values.
    var fields: JSONObject
}

/// Reads records one by one, in bounded memory.
protocol RecordReader {
    /// The next record, or nil at the end.
    ///
    /// - Throws: ``RecordError`` for a record that is malformed. Where the reader can find the
    ///   next one, reading may go on.
    mutating func next() throws -> ImportRecord?
    /// Whether reading can go on after a malformed record.
    var canResume: Bool { get }
    /// The columns that every record has; nil where each has its own.
    var columns: [String]? { get }
}

extension RecordReader {
    var columns: [String]? { nil }
}

/// The formats that are read.
enum RecordFormat: String, CaseIterable {
    case csv
    case jsonl
    case control

    /// Guesses from a file's name; nil where it tells nothing.
    init?(guessing path: String) {
        let name = (path.split(separator: "/").last ?? "").lowercased()
        if name.hasSuffix(".csv") {
            self = .csv
        } else if name.hasSuffix(".jsonl") || name.hasSuffix(".ndjson") {
            self = .jsonl
        } else if name.hasSuffix(".control") || name.hasPrefix("packages")
            || name.hasSuffix("_packages") || name == "control" || name == "status"
        {
            self = .control
        } else {
            return nil
        }
    }

    /// A reader of this format.
    ///
    /// - Parameter delimiter: what separates the fields of CSV.
    func reader(
        _ source: ByteSource, delimiter: UInt8 = UInt8(ascii: ",")
    ) throws -> any RecordReader {
        try source.skipByteOrderMark()
        return switch self {
        case .csv: try CSVReader(source, delimiter: delimiter)
        case .jsonl: JSONLinesReader(source)
        case .control: ControlReader(source)
        }
    }
}

/// A JSON object a line; empty lines are skipped.
struct JSONLinesReader: RecordReader {
    private let source: ByteSource
    let canResume = true

    init(_ source: ByteSource) { self.source = source }

    mutating func next() throws -> ImportRecord? {
        while true {
            let line = source.line
            guard let bytes = try source.takeLine() else { return nil }
            if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { continue }
            let value: JSONValue
            do {
                value = try JSONParser.parse(bytes)
            } catch { throw RecordError(line: line, "column \(error.column): \(error.message)") }
            guard let object = value.object else {
                throw RecordError(line: line, "expected an object, not \(value.kind)")
            }
            return ImportRecord(line: line, fields: object)
        }
    }
}

/// Stanzas of `Field: value` lines, as Debian's control files; lines that begin with a space go
/// on with the field before.
struct ControlReader: RecordReader {
    private let source: ByteSource
    let canResume = true

    init(_ source: ByteSource) { self.source = source }

    mutating func next() throws -> ImportRecord? {
        var fields = JSONObject()
        var name: String?
        var lines: [String] = []
        var first = source.line
        var failure: RecordError?
        var size = 0
        while true {
            let line = source.line
            guard let bytes = try source.takeLine() else { break }
            guard !bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) else {
                // An empty line ends the stanza; several between two mean no more than one.
                if name == nil, failure == nil { first = source.line } else { break }
                continue
            }
            if failure != nil || bytes.first == UInt8(ascii: "#") { continue }
            size += bytes.count
            guard size <= ByteSource.maximumRecordBytes,
                let text = String(validating: bytes, as: UTF8.self)
            else {
                failure = RecordError(line: line, "the stanza is not UTF-8, or over 16 MiB long")
                continue
            }
            if text.first == " " || text.first == "\t" {
                guard name != nil else {
                    failure = RecordError(line: line, "a continuation without a field before it")
                    continue
                }
                // A lone point stands for an empty line.
                let rest = String(text.dropFirst())
                lines.append(rest == "." ? "" : rest)
                continue
            }
            if let name { fields[name] = .string(Self.joined(lines)) }
            guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else {
                failure = RecordError(line: line, "expected \"Field: value\"")
                continue
            }
            let field = String(text[..<colon])
            guard !fields.members.contains(where: { $0.key.lowercased() == field.lowercased() })
            else {
                failure = RecordError(line: line, "the field \(field) occurs twice")
                continue
            }
            name = field
            lines = [Self.trimmed(text[text.index(after: colon)...])]
        }
        if let failure { throw failure }
        guard let name else { return nil }
        fields[name] = .string(Self.joined(lines))
        return ImportRecord(line: first, fields: fields)
    }

    private static func joined(_ lines: [String]) -> String {
        lines.first?.isEmpty == true && lines.count > 1
            ? lines.dropFirst().joined(separator: "\n") : lines.joined(separator: "\n")
    }

    static func trimmed(_ text: some StringProtocol) -> String {
        let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        let start = text.drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(start[...last])
    }
}
