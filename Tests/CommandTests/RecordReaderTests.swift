import Console
import Coordinator
import Testing

@testable import TributaryCLI

/// What a reader makes of a text: records, and errors where they come.
private func read(_ format: RecordFormat, _ text: String) -> (
    records: [ImportRecord], errors: [String]
) {
    var records: [ImportRecord] = []
    var errors: [String] = []
    do {
        var reader = try format.reader(ByteSource(bytes: Array(text.utf8)))
        while true {
            do {
                guard let record = try reader.next() else { break }
                records.append(record)
            } catch {
                errors.append("\(error)")
                guard reader.canResume else { break }
            }
        }
    } catch { errors.append("\(error)") }
    return (records, errors)
}

@Suite("Reading CSV")
struct CSVReaderTests {
    @Test("Quoted fields may hold commas, quotes and line ends, and lines are counted through them")
    func quotes() {
        let found = read(.csv, "name,note\r\nAda,\"a, \"\"b\"\"\r\nc\"\r\nBob,\n")
        #expect(found.errors == [])
        #expect(found.records.map(\.line) == [2, 4])
        #expect(found.records[0].fields["note"] == .string("a, \"b\"\r\nc"))
        #expect(found.records[1].fields["note"] == .null)
    }

    @Test("A last line without an end is a record, and a byte order mark is no part of a name")
    func ends() {
        let found = read(.csv, "\u{FEFF}name,age\nAda,36")
        #expect(found.records == [ImportRecord(line: 2, fields: ["name": "Ada", "age": "36"])])
        let quoted = read(.csv, "\u{FEFF}\"name\",\"age\"\n\"Ada\",36")
        #expect(quoted.records == found.records)
        // The first byte of the mark is that of other letters as well.
        let letter = read(.csv, "\u{F900}\nAda")
        #expect(letter.records.first?.fields["\u{F900}"] == "Ada")
    }

    @Test("A row with too few fields is reported with its line, and the next one is read")
    func fewFields() {
        let found = read(.csv, "a,b\n1\n2,3\n")
        #expect(found.errors == ["line 2: 1 fields, but the header has 2"])
        #expect(found.records.map(\.line) == [3])
    }

    @Test(
        "What leaves the next record uncertain ends the reading",
        arguments: [
            ("a\nx\"y\nz\n", "line 2: a quote within a field that is not quoted"),
            ("a\n\"x\"y\nz\n", "line 2: something follows a closing quote"),
            ("a\n1\n\"x\n", "line 3: a quoted field does not end"),
            ("a,a\n", "line 1: the column \"a\" occurs twice"),
            ("", "line 1: there is no header row"),
        ])
    func broken(_ text: String, _ message: String) {
        #expect(read(.csv, text).errors == [message])
    }

    @Test("What is not UTF-8 is refused with its line")
    func encoding() throws {
        var reader = try CSVReader(
            ByteSource(bytes: Array("a,b\n".utf8) + [0xFF, 0x2C, 0x62, 0x0A]))
        #expect(throws: RecordError(line: 2, "field 1 is not UTF-8")) { try reader.next() }
        #expect(try reader.next() == nil)
    }

    @Test("A row ends with CR too, as with LF and CR LF", arguments: ["\r", "\n", "\r\n"])
    func lineEnds(_ end: String) {
        let found = read(.csv, ["a,b", "1,2", "\"x\",y", "", "3"].joined(separator: end))
        #expect(found.records.map(\.fields) == [["a": "1", "b": "2"], ["a": "x", "b": "y"]])
        #expect(found.records.map(\.line) == [2, 3])
        #expect(found.errors == ["line 5: 1 fields, but the header has 2"])
    }

    @Test("An empty field is null, and an empty text where it is in quotes")
    func empty() {
        let found = read(.csv, "a,b,c\n,\"\",x\n")
        #expect(found.records.map(\.fields) == [["a": .null, "b": "", "c": "x"]])
        #expect(CSVWriter.row([nil, "", "x"]) == ",\"\",x")
        #expect(CSVWriter.text(.null) == nil)
        #expect(CSVWriter.text("") == "")
    }

    @Test(
        "Another delimiter can be said, and a header that seems to have one is refused with a hint",
        arguments: [(";", "';'", ";"), ("\t", "tab", "tab")])
    func delimiters(_ delimiter: String, _ hint: String, _ flag: String) throws {
        let text = "a\(delimiter)b\n1,5\(delimiter)2\n"
        #expect(read(.csv, text).errors.first?.contains("say --delimiter \(hint)") ?? false)
        var reader = try RecordFormat.csv.reader(
            ByteSource(bytes: Array(text.utf8)), delimiter: CSVReader.delimiter(flag))
        #expect(try reader.next()?.fields == ["a": "1,5", "b": "2"])
    }

    @Test("What cannot separate fields is refused", arguments: ["", "ab", "\"", "\n", "\r", "é"])
    func wrongDelimiters(_ text: String) {
        #expect(throws: CommandFailure.self) { try CSVReader.delimiter(text) }
    }

    @Test("What is written is read back", arguments: ["", "a", "a,b", "\"", "x\ny", "é\r\n\"\""])
    func roundTrip(_ text: String) {
        let found = read(.csv, "a,b\r\n" + CSVWriter.row([text, "end"]) + "\r\n")
        #expect(found.records.map(\.fields) == [["a": .string(text), "b": .string("end")]])
    }
}

@Suite("Byte order marks")
struct ByteOrderMarkTests {
    @Test(
        "One is skipped in every format",
        arguments: [
            (RecordFormat.csv, "a\n1"), (.jsonl, "{\"a\": \"1\"}"), (.control, "a: 1"),
        ])
    func formats(_ format: RecordFormat, _ text: String) {
        let found = read(format, "\u{FEFF}" + text)
        #expect(found.records.map(\.fields) == [["a": "1"]])
        #expect(found.errors == [])
    }

    @Test("One is skipped in model files")
    func models() throws {
        let json = "{\"entities\": [{\"name\": \"A\"}]}"
        let model = try ManagedObjectModel(json: Array("\u{FEFF}\(json)".utf8))
        #expect(model.entities.map(\.name) == ["A"])
    }
}

@Suite("Reading JSON lines")
struct JSONLinesTests {
    @Test("Each line is an object; empty lines are skipped, malformed ones told with their place")
    func lines() {
        let found = read(.jsonl, "{\"a\":1}\n\n{\"a\":}\n[1]\n{\"a\":2}")
        #expect(found.records.map(\.line) == [1, 5])
        #expect(found.records[0].fields["a"] == .integer(1))
        #expect(
            found.errors == [
                "line 3: column 6: expected a value", "line 4: expected an object, not an array",
            ])
    }
}

@Suite("Reading control files")
struct ControlReaderTests {
    @Test("Stanzas are separated by empty lines, fields go on in lines that begin with a space")
    func stanzas() {
        let found = read(
            .control,
            """

            # A comment.
            Package: ada
            Description: a language
             It is old.
             .
             It is good.

            Package: bob
            Tags:
             one,
             two


            """)
        #expect(found.errors == [])
        #expect(found.records.map(\.line) == [2, 9])
        #expect(
            found.records[0].fields["Description"]
                == .string("a language\nIt is old.\n\nIt is good."))
        #expect(found.records[1].fields["Tags"] == .string("one,\ntwo"))
    }

    @Test(
        "A malformed stanza is reported with its line, and the next one is read",
        arguments: [
            ("Package: a\nnonsense\n", "line 2: expected \"Field: value\""),
            (" x\n", "line 1: a continuation without a field before it"),
            ("A: 1\nA: 2\n", "line 2: the field A occurs twice"),
        ])
    func malformed(_ text: String, _ message: String) {
        let found = read(.control, text + "\nPackage: next\n")
        #expect(found.errors == [message])
        #expect(found.records.map { $0.fields["Package"] } == [.string("next")])
    }

    @Test("Lists lose versions, architectures and alternatives")
    func lists() {
        let text = "libc6 (>= 2.36), libssl3 | libssl1.1,\n python3:any [amd64] <!nocheck>, "
        #expect(ImportValue.list(text, strippingVersions: true) == ["libc6", "libssl3", "python3"])
        #expect(ImportValue.list("a (b), c", strippingVersions: false) == ["a (b)", "c"])
    }
}

@Suite("The parts of an import")
struct ImportPartTests {
    @Test("Every key is in exactly one part")
    func partition() throws {
        let parts = try ["1/3", "2/3", "3/3"].map { try ImportPart($0) }
        for key in (0..<200).map({ "key-\($0)" }) {
            #expect(parts.count { $0.contains(key) } == 1)
        }
    }

    @Test("The part of a key never changes")
    func stability() throws {
        let part = try ImportPart("1/2")
        #expect(["a", "b", "c", "libc6"].map { part.contains($0) } == [true, false, true, false])
    }

    @Test("What is no part is refused", arguments: ["0/3", "4/3", "1", "1/0", "a/b", "1/3/4"])
    func refused(_ text: String) {
        #expect(throws: CommandFailure.self) { try ImportPart(text) }
    }
}
