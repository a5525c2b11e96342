import Merge
import TestSupport
import Testing

@testable import Coordinator

/// RFC 8949 as far as it says what JSON can say, and what is refused of the rest.
@Suite("CBOR as values of JSON")
struct CBORParserTests {
    /// Bytes from their digits in hexadecimal.
    private func bytes(_ digits: String) -> [UInt8] {
        stride(from: 0, to: digits.utf8.count, by: 2).compactMap { place in
            UInt8(digits.dropFirst(place).prefix(2), radix: 16)
        }
    }

    private func error(_ bytes: [UInt8], maximumBytes: Int = 16 << 20) -> CBORError? {
        do {
            _ = try CBORParser.parse(bytes, maximumBytes: maximumBytes)
            return nil
        } catch { return error }
    }

    @Test(
        "The examples of the RFC read as the JSON that they stand for",
        arguments: [
            ("00", "0"), ("01", "1"), ("0a", "10"), ("17", "23"), ("1818", "24"), ("1819", "25"),
            ("1864", "100"), ("1903e8", "1000"), ("1a000f4240", "1000000"),
            ("1b000000e8d4a51000", "1000000000000"), ("1b7fffffffffffffff", "9223372036854775807"),
            ("1bffffffffffffffff", "18446744073709551615"),
            ("3b7fffffffffffffff", "-9223372036854775808"),
            ("3b8000000000000000", "-9223372036854775809"),
            ("3bffffffffffffffff", "-18446744073709551616"), ("20", "-1"), ("29", "-10"),
            ("3863", "-100"), ("3903e7", "-1000"), ("f90000", "0.0"), ("f98000", "-0.0"),
            ("f93c00", "1.0"), ("fb3ff199999999999a", "1.1"), ("f93e00", "1.5"),
            ("f97bff", "65504.0"), ("fa47c35000", "100000.0"),
            ("fa7f7fffff", "3.4028234663852886e+38"), ("fb7e37e43c8800759c", "1.0e+300"),
            ("f90001", "5.960464477539063e-8"), ("f90400", "0.00006103515625"), ("f9c400", "-4.0"),
            ("fbc010666666666666", "-4.1"), ("f4", "false"), ("f5", "true"), ("f6", "null"),
            ("60", "\"\""), ("6161", "\"a\""), ("6449455446", "\"IETF\""),
            ("62225c", "\"\\\"\\\\\""), ("62c3bc", "\"\u{fc}\""), ("63e6b0b4", "\"\u{6c34}\""),
            ("64f0908591", "\"\u{10151}\""), ("80", "[]"), ("83010203", "[1,2,3]"),
            ("8301820203820405", "[1,[2,3],[4,5]]"), ("a0", "{}"),
            ("a26161016162820203", "{\"a\":1,\"b\":[2,3]}"),
            ("826161a161626163", "[\"a\",{\"b\":\"c\"}]"),
            (
                "a56161614161626142616361436164614461656145",
                "{\"a\":\"A\",\"b\":\"B\",\"c\":\"C\",\"d\":\"D\",\"e\":\"E\"}"
            ),
        ])
    func examples(_ digits: String, _ text: String) throws {
        let value = try CBORParser.parse(bytes(digits))
        let json = try JSONParser.parse(Array(text.utf8))
        #expect(value == json)
        // Also tells 0 from -0, which are equal.
        #expect(JSONWriter.text(of: value) == JSONWriter.text(of: json))
        let isBeyond64Bits = text.utf8.count > 18 && json.integer == nil && !text.contains(".")
        if !isBeyond64Bits { #expect(CBORWriter.bytes(of: json) == bytes(digits)) }
    }

    @Test(
        "Longer heads and indefinite lengths read as the short form, which is the one written",
        arguments: [
            ("1800", "0"), ("190001", "1"), ("1a00000001", "1"), ("1b0000000000000001", "1"),
            ("3800", "-1"), ("fb3ff0000000000000", "1.0"), ("fa3f800000", "1.0"),
            ("780161", "\"a\""), ("9b0000000000000000", "[]"), ("b80161610a", "{\"a\":10}"),
            ("7f657374726561646d696e67ff", "\"streaming\""), ("7fff", "\"\""), ("9fff", "[]"),
            ("bfff", "{}"), ("9f018202039f0405ffff", "[1,[2,3],[4,5]]"),
            ("9f01820203820405ff", "[1,[2,3],[4,5]]"), ("83018202039f0405ff", "[1,[2,3],[4,5]]"),
            ("83019f0203ff820405", "[1,[2,3],[4,5]]"),
            ("bf61610161629f0203ffff", "{\"a\":1,\"b\":[2,3]}"),
            ("826161bf61626163ff", "[\"a\",{\"b\":\"c\"}]"),
            ("bf6346756ef563416d7421ff", "{\"Fun\":true,\"Amt\":-2}"),
            ("a17f61616162ff01", "{\"ab\":1}"),
        ])
    func otherForms(_ digits: String, _ text: String) throws {
        let value = try CBORParser.parse(bytes(digits))
        #expect(value == (try JSONParser.parse(Array(text.utf8))))
        let written = CBORWriter.bytes(of: value)
        #expect(try CBORParser.parse(written) == value && written.count < digits.utf8.count / 2)
    }

    @Test("Byte strings stay bytes, whole or in chunks, and are base64 in JSON")
    func byteStrings() throws {
        for digits in ["4401020304", "5f42010243030405ff", "40"] {
            guard case .bytes(let content) = try CBORParser.parse(bytes(digits)) else {
                Issue.record("\(digits)")
                continue
            }
            #expect(content == Array([1, 2, 3, 4, 5].prefix(content.count)))
        }
        #expect(CBORWriter.bytes(of: .bytes([1, 2, 3, 4])) == bytes("4401020304"))
        #expect(JSONWriter.text(of: .bytes([1, 2, 3, 4])) == "\"AQIDBA==\"")
        #expect(try PropertyValue(json: .bytes([1]), type: .binary) == .binary([1]))
        #expect {
            _ = try PropertyValue(json: .bytes([1]), type: .string)
        } throws: {
            "\($0)" == "expected a string, not a byte string"
        }
        #expect(JSONValue.bytes([1]) != .string("AQ=="))
    }

    @Test(
        "What is no CBOR is refused, with the byte",
        arguments: [
            ("", 0), ("1c", 0), ("3d", 0), ("5e", 0), ("7d", 0), ("9c", 0), ("fc", 0), ("fe", 0),
            ("1f", 0), ("3f", 0), ("df", 0), ("ff", 0), ("0000", 1), ("18", 1), ("19ff", 2),
            ("61", 1), ("4201", 2), ("8201", 0), ("820102ff", 3), ("81ff", 1), ("a161", 0),
            ("a16161ff", 3), ("9f01", 2), ("bf616101", 4), ("5f01ff", 1), ("5f6161ff", 1),
            ("7f4161ff", 1), ("7f7f6161ffff", 1), ("5f41", 3), ("62c328", 0), ("7f61c361bcff", 1),
            ("61ff", 0), ("63eda080", 0), ("8161c3", 1),
        ])
    func refusesSyntax(_ digits: String, _ offset: Int) {
        let error = error(bytes(digits))
        #expect(error?.offset == min(offset, digits.utf8.count / 2), "\(digits): \(error as Any)")
        #expect(error?.isSyntax == true, "\(digits): \(error as Any)")
    }

    @Test(
        "What JSON cannot say is refused, with the byte and what to send",
        arguments: [
            ("f7", 0, "undefined"), ("f0", 0, "simple"), ("f8ff", 0, "simple"),
            ("c11a514b67b0", 0, "tags"), ("d9d9f700", 0, "tags"),
            ("8201c249010000000000000000", 2, "tags"),
            ("a201020304", 1, "key"), ("a1f600", 1, "key"), ("a1416100", 1, "key"),
            ("a2616101616102", 4, "\"a\" occurs twice"), ("bf616101616102ff", 4, "occurs twice"),
            ("f97c00", 0, "\"Infinity\""), ("f97e00", 0, "\"NaN\""), ("fa7fc00000", 0, "\"NaN\""),
            ("81fbfff0000000000000", 1, "\"-Infinity\""),
        ])
    func refusesMeaning(_ digits: String, _ offset: Int, _ words: String) {
        let error = error(bytes(digits))
        #expect(error?.offset == offset && error?.isSyntax == false, "\(digits): \(error as Any)")
        let text = error?.message.replacing("Infinity is", with: "\"Infinity\" is")
            .replacing("-\"Inf", with: "\"-Inf").replacing("NaN is", with: "\"NaN\" is")
        #expect(text?.contains(words) == true, "\(error as Any)")
    }

    private static func sample() throws -> JSONValue {
        let text = """
            {"name": "Ada \\u00e9", "age": 36, "ratio": 1.1, "active": true, "manager": null,
             "tags": [[], {}, 1000000, -70000]}
            """
        var values = try #require(try JSONParser.parse(Array(text.utf8)).object)
        values["photo"] = .bytes([1, 2, 3])
        return [
            "operations": .array([
                ["insert": .string("Person"), "id": .string("@ada"), "values": .object(values)]
            ]), "saveID": .string("import-2026-01-31-7"),
        ]
    }

    @Test("A sample cut off at any byte is refused at its end or at what claims more")
    func truncation() throws {
        let sample = try Self.sample()
        let whole = CBORWriter.bytes(of: sample)
        #expect(try CBORParser.parse(whole) == sample)
        for count in 0..<whole.count {
            let error = error(Array(whole.prefix(count)))
            #expect(error?.isSyntax == true, "\(count): \(error as Any)")
            #expect((error?.offset ?? .max) <= count, "\(count): \(error as Any)")
        }
        #expect(error(whole + [0])?.offset == whole.count)
    }

    @Test("Nesting is bounded, whatever its form, and costs no stack")
    func depth() throws {
        for opening in ["81", "9f", "a160", "bf60"] {
            let deepest = Array(repeatElement(bytes(opening), count: 64).joined())
            let isOpenEnded = opening == "9f" || opening == "bf60"
            let ends = isOpenEnded ? [UInt8](repeating: 0xFF, count: 64) : []
            #expect(throws: Never.self) { try CBORParser.parse(deepest + [0x01] + ends) }
            let bomb = error(Array(repeatElement(bytes(opening), count: 1_000_000).joined()))
            #expect(bomb?.offset == deepest.count && bomb?.isSyntax == false, "\(bomb as Any)")
            #expect(bomb?.message.contains("64 levels") == true)
        }
    }

    @Test("A claimed length costs nothing before the bytes are there")
    func claims() {
        for head in ["5b", "7b", "9b", "bb"] {
            for length in ["ffffffffffffffff", "7fffffffffffffff", "0000000040000000"] {
                let error = error(bytes(head + length) + [0x61, 0x61])
                #expect(error?.isSyntax == true, "\(head)\(length)")
            }
        }
        // A map's members take two bytes each at the least.
        #expect(error(bytes("a26161"))?.offset == 0)
        #expect(error(bytes("5f5bffffffffffffffff"))?.offset == 10)
    }

    @Test("Size and number of items are bounded as those of a JSON text of that size are")
    func bounds() throws {
        #expect(error([0x18, 0x18], maximumBytes: 1)?.isSyntax == false)
        // [0,0] has five bytes as JSON, and so has {"":0} six.
        #expect(error(bytes("820000"), maximumBytes: 5) == nil)
        #expect(error(bytes("820000"), maximumBytes: 4)?.offset == 2)
        #expect(error(bytes("a16000"), maximumBytes: 6) == nil)
        #expect(error(bytes("a16000"), maximumBytes: 5)?.offset == 2)
        var choices = SeededGenerator(seed: 34)
        for _ in 0..<2_000 {
            let value = Self.value(&choices, depth: 3, hasBytes: false)
            let written = CBORWriter.bytes(of: value)
            let count = max(JSONWriter.bytes(of: value).count, written.count)
            let read = try CBORParser.parse(written, maximumBytes: count)
            #expect(read == value, "what fits as JSON fits as CBOR")
        }
    }

    /// A value of any shape.
    private static func value(
        _ choices: inout SeededGenerator, depth: Int, hasBytes: Bool
    ) -> JSONValue {
        let texts = [
            "", "a", "\u{e9}", "e\u{301}", "\u{6c34}\u{10151}", "a\"\\\n\u{0}", "key", "name",
        ]
        switch choices.next() % (depth > 0 ? 9 : 7) {
        case 0: return .null
        case 1: return .boolean(choices.next() % 2 == 0)
        case 2: return .integer(Int64(bitPattern: choices.next() >> (choices.next() % 64)))
        case 3: return .integer(-1 - Int64(choices.next() >> (1 + choices.next() % 63)))
        case 4:
            let number =
                choices.next() % 2 == 0
                ? Double(bitPattern: choices.next())
                : Double(Int8(truncatingIfNeeded: choices.next())) / 8
            return .double(number.isFinite ? number : -0.0)
        case 5:
            return .string(String(repeating: choices.pick(texts), count: Int(choices.next() % 40)))
        case 6:
            guard hasBytes else { return .string("b") }
            return .bytes(
                (0..<choices.next() % 300).map { _ in UInt8(truncatingIfNeeded: choices.next()) })
        case 7:
            return .array(
                (0..<choices.next() % 30).map { _ in
                    value(&choices, depth: depth - 1, hasBytes: hasBytes)
                })
        default:
            var object = JSONObject()
            for number in 0..<choices.next() % 30 {
                object["\(choices.pick(texts))\(number)"] = value(
                    &choices, depth: depth - 1, hasBytes: hasBytes)
            }
            return .object(object)
        }
    }

    @Test("Any value comes back as it went, from CBOR as from JSON")
    func differential() throws {
        var choices = SeededGenerator(seed: 8949)
        for _ in 0..<3_000 {
            let value = Self.value(&choices, depth: 4, hasBytes: true)
            let written = CBORWriter.bytes(of: value)
            let read = try CBORParser.parse(written)
            #expect(read == value)
            #expect(CBORWriter.bytes(of: read) == written)
            // Bytes are text there, so what is read is compared as it is written.
            let text = JSONWriter.bytes(of: value)
            #expect(JSONWriter.bytes(of: read) == text)
            #expect(try JSONWriter.bytes(of: JSONParser.parse(text)) == text)
        }
    }

    @Test("No bytes whatever make it trap, and what it reads it writes and reads again")
    func fuzz() throws {
        let seeds = [
            CBORWriter.bytes(of: try Self.sample()), bytes("9f01bf61617f6162ff61629f0203ffffff"),
        ]
        let special: [UInt8] = [
            0x00, 0x1B, 0x5F, 0x7F, 0x9F, 0xBF, 0xFF, 0x61, 0x81, 0xA1, 0xF9, 0xFB, 0xF6, 0xC0,
        ]
        var choices = SeededGenerator(seed: 12)
        var understood = 0
        for _ in 0..<50_000 {
            var input = choices.pick(seeds)
            for _ in 0..<choices.next() % 4 {
                let place = Int(choices.next() % UInt64(input.count))
                switch choices.next() % 3 {
                case 0: input[place] = choices.pick(special)
                case 1: input[place] = UInt8(truncatingIfNeeded: choices.next())
                default: if input.count > 1 { input.remove(at: place) }
                }
            }
            guard let value = try? CBORParser.parse(input) else { continue }
            understood += 1
            #expect(try CBORParser.parse(CBORWriter.bytes(of: value)) == value)
        }
        #expect(understood > 5_000)
    }

    @Test("Numbers that are not finite are written as the texts that JSON has")
    func notFinite() throws {
        for (number, text) in [
            (Double.nan, "NaN"), (.infinity, "Infinity"), (-.infinity, "-Infinity"),
        ] {
            let written = CBORWriter.bytes(of: .double(number))
            #expect(try CBORParser.parse(written) == .string(text))
        }
    }
}
