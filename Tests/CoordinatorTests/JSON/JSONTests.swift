import Merge
import TestSupport
import Testing

@testable import Coordinator

@Suite("JSON")
struct JSONTests {
    private func parse(_ text: String) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8))
    }

    @Test(
        "reads and writes back the same bytes",
        arguments: [
            "null", "true", "-0.0", "9223372036854775807", "-9223372036854775808", "5e-324",
            "1.7976931348623157e+308", "\"a\\\"\\\\\\n\\u0000é\"", "[]", "{}",
            "[1,[2,[]],{\"a\":{}}]", "{\"b\":1,\"a\":[true,false,null]}", "0.1",
        ])
    func roundTrip(text: String) throws { #expect(JSONWriter.text(of: try parse(text)) == text) }

    @Test(
        "refuses what is no JSON, with the place",
        arguments: [
            ("", 0), ("nul", 0), ("01", 0), ("1.", 2), ("-", 1), ("[1,]", 3), ("[1 2]", 3),
            ("{\"a\":1,\"a\":2}", 12), ("{a:1}", 1), ("\"\\ud800\"", 7), ("\"\\x\"", 2), ("1 1", 2),
            ("\"\n\"", 1), ("\"", 1), ("1e999", 0), ("{\"a\" 1}", 5), ("[", 1), ("'a'", 0),
            ("+1", 0), ("\u{FEFF}1", 0), ("{\"a\":1,}", 7),
        ])
    func refuses(text: String, offset: Int) {
        #expect {
            _ = try parse(text)
        } throws: {
            ($0 as? JSONError)?.offset == offset
        }
    }

    @Test("names line and column")
    func place() {
        #expect {
            _ = try parse("{\n  \"a\": x}")
        } throws: {
            ($0 as? JSONError).map { $0.line == 2 && $0.column == 8 } ?? false
        }
    }

    @Test("refuses bytes that are no UTF-8, and nesting and size beyond the bounds")
    func bounds() throws {
        #expect(throws: JSONError.self) { try JSONParser.parse([34, 0xC3, 34]) }
        #expect(throws: JSONError.self) { try JSONParser.parse([34, 0xED, 0xA0, 0x80, 34]) }
        #expect(throws: JSONError.self) { try parse(String(repeating: "[", count: 1_000_000)) }
        let deepest = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        #expect(throws: Never.self) { try parse(deepest) }
        #expect(throws: JSONError.self) { try parse("[\(deepest)]") }
        #expect(throws: JSONError.self) { try JSONParser.parse([49, 49], maximumBytes: 1) }
    }

    @Test("numbers keep their bits; integers beyond 64 bits become doubles")
    func numbers() throws {
        #expect(try parse("9223372036854775808") == .double(0x1p63))
        #expect(try parse("1E2") == .double(100))
        guard case .double(let zero) = try parse("-0.0") else {
            Issue.record("no double")
            return
        }
        #expect(zero.sign == .minus)
        var choices = SeededGenerator(seed: 4)
        for _ in 0..<5_000 {
            let number = Double(bitPattern: choices.next())
            guard number.isFinite else { continue }
            let text = JSONWriter.text(of: .double(number))
            #expect(try parse(text) == .double(number))
        }
    }

    @Test("no bytes whatever make it trap, and what it reads it writes and reads again")
    func fuzz() throws {
        let seeds = [
            "{\"entities\":[{\"name\":\"A\",\"x\":[1,2.5e3,true,null,\"\\u00e9\\ud83d\\ude00\"]}]}",
            "[[],{},\"\",-0,1e5,[[[]]]]",
        ].map { Array($0.utf8) }
        let bytes = Array("{}[]\",:\\u0eE+-.123truefalsn \n\u{00}é".utf8)
        var choices = SeededGenerator(seed: 6)
        var understood = 0
        for _ in 0..<50_000 {
            var text = choices.pick(seeds)
            for _ in 0..<choices.next() % 4 {
                let place = Int(choices.next() % UInt64(text.count))
                switch choices.next() % 3 {
                case 0: text[place] = choices.pick(bytes)
                case 1: text.insert(choices.pick(bytes), at: place)
                default: if text.count > 1 { text.remove(at: place) }
                }
            }
            guard let value = try? JSONParser.parse(text) else { continue }
            understood += 1
            #expect(try JSONParser.parse(JSONWriter.bytes(of: value, pretty: true)) == value)
        }
        #expect(understood > 5_000)
    }
}

@Suite("Values as JSON")
struct ValueJSONTests {
    @Test(
        "values come back as they went",
        arguments: [
            (AttributeType.integer64, PropertyValue.integer(.min)), (.integer16, .integer(-32_768)),
            (.double, .double(.nan)), (.double, .double(-.infinity)), (.double, .double(0.1)),
            (.float, .double(Double(Float(0.1)))), (.decimal, .decimal("-12.5")),
            (.string, .string("é\u{0}\"")), (.boolean, .boolean(true)), (.date, .date(.min)),
            (.date, .date(.max)), (.date, .date(-1)), (.date, .date(1_769_860_800_000)),
            (.binary, .binary([])), (.binary, .binary([255])), (.binary, .binary([1, 2, 3, 4, 5])),
            (.uuid, .uuid(0x0123_4567_89AB_CDEF, .max)), (.uri, .uri("a:b")), (.date, .null),
        ])
    func roundTrip(type: AttributeType, value: PropertyValue) throws {
        let json = value.jsonValue(cluster: "demo", destination: "Person")
        let text = JSONWriter.bytes(of: json)
        #expect(try PropertyValue(json: JSONParser.parse(text), type: type) == value)
    }

    @Test(
        "wrong types and ranges are refused",
        arguments: [
            (AttributeType.integer16, "32768"), (.integer32, "2147483648"), (.integer64, "1.0"),
            (.integer64, "\"1\""), (.double, "\"1\""), (.float, "1e300"), (.decimal, "1.5"),
            (.decimal, "\"x\""), (.string, "1"), (.boolean, "1"), (.date, "0"),
            (.date, "\"2026-02-30T00:00:00.000Z\""), (.date, "\"2026-01-01T00:00:00.000\""),
            (.date, "\"2026-01-01T24:00:00.000Z\""), (.date, "\"-000000-01-01T00:00:00.000Z\""),
            (.date, "\"+999999999-01-01T00:00:00.000Z\""), (.binary, "\"A\""),
            (.binary, "\"AB==\""),
            (.uuid, "\"0123\""), (.uri, "1"), (.string, "[]"),
        ])
    func refuses(type: AttributeType, text: String) throws {
        let json = try JSONParser.parse(Array(text.utf8))
        #expect(throws: JSONConversionError.self) { try PropertyValue(json: json, type: type) }
    }

    @Test("dates print as ISO 8601 with milliseconds")
    func dates() {
        #expect(ValueText.date(0) == "1970-01-01T00:00:00.000Z")
        #expect(ValueText.date(1_769_860_800_000) == "2026-01-31T12:00:00.000Z")
        #expect(ValueText.date(-1) == "1969-12-31T23:59:59.999Z")
        #expect(ValueText.milliseconds(fromDate: "2000-02-29T00:00:00Z") == 951_782_400_000)
        #expect(ValueText.date(253_402_300_800_000) == "+010000-01-01T00:00:00.000Z")
    }

    @Test("object URIs are read exactly as printed")
    func uris() {
        let uri = ObjectURI(cluster: "demo", entityName: "Person", row: RowID(17))
        #expect(uri.description == "x-tributary://demo/Person/p17")
        #expect(ObjectURI(uri.description) == uri)
        for text in [
            "x-tributary://demo/Person/17", "x-tributary://demo/Person/p017", "http://demo/P/p1",
            "x-tributary://demo/Person/p-1", "x-tributary:///Person/p1",
            "x-tributary://demo/Person/p1/x", "x-tributary://demo/Person/p99999999999999999999",
        ] { #expect(ObjectURI(text) == nil) }
    }

    @Test("values are checked against their properties")
    func validation() throws {
        func property(
            _ type: AttributeType, _ validation: AttributeValidation = .init(),
            isOptional: Bool = true
        ) throws -> ManagedObjectModel.Property {
            try #require(
                try ManagedObjectModel(entities: [
                    EntityDescription(
                        "A",
                        attributes: [
                            .init("x", type, isOptional: isOptional, validation: validation)
                        ])
                ]).entity(named: "A")?.properties.first)
        }
        func code(
            _ value: PropertyValue, _ property: ManagedObjectModel.Property
        ) -> ValidationFailure.Code? {
            ValueValidation.failure(value, of: property, object: "o")?.code
        }
        #expect(code(.null, try property(.string)) == nil)
        #expect(code(.null, try property(.string, isOptional: false)) == .missingMandatoryProperty)
        #expect(code(.integer(1), try property(.string)) == .wrongType)
        #expect(code(.reference(RowID(1)), try property(.string)) == .wrongType)
        let bounded = try property(
            .string, .init(minimum: .integer(2), maximum: .integer(3), pattern: "[a-zé]*"))
        #expect(code(.string("é"), bounded) == .stringTooShort)
        #expect(code(.string("ééé"), bounded) == nil)
        #expect(code(.string("éééé"), bounded) == .stringTooLong)
        // Lengths are in UTF-16 units: this character has four.
        #expect(code(.string("🇸🇪"), bounded) == .stringTooLong)
        #expect(code(.string("AB"), bounded) == .stringPatternMatching)
        let decimal = try property(
            .decimal, .init(minimum: .decimal("-1"), maximum: .decimal("9.5")))
        #expect(code(.decimal("10"), decimal) == .numberTooLarge)
        #expect(code(.decimal("-1.01"), decimal) == .numberTooSmall)
        #expect(code(.decimal("9.5"), decimal) == nil)
        let date = try property(.date, .init(minimum: .date(0), maximum: .date(10)))
        #expect(code(.date(-1), date) == .dateTooSoon)
        #expect(code(.date(11), date) == .dateTooLate)
    }

    @Test("Texts are the same byte for byte, whatever they look like")
    func textsByBytes() throws {
        let (one, two) = (JSONValue.string("\u{E9}"), JSONValue.string("e\u{301}"))
        #expect(one != two && Set([one, two, one]).count == 2)
        #expect(JSONValue.array([one]) != .array([two]))
        #expect(JSONValue.object(["a": one]) != .object(["a": two]))
        #expect(try JSONParser.parse(Array("\"\u{E9}\"".utf8)) == one)
    }
}
