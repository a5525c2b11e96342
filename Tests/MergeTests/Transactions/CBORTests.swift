import Merge
import Testing

/// RFC 8949, appendix A, for what the product writes; and what its reader must refuse.
@Suite("CBOR")
struct CBORTests {
    @Test(
        "Integers have the RFC's bytes",
        arguments: [
            (0, "00"), (1, "01"), (10, "0a"), (23, "17"), (24, "1818"), (25, "1819"),
            (100, "1864"), (255, "18ff"), (256, "190100"), (1000, "1903e8"), (65535, "19ffff"),
            (65536, "1a00010000"), (1_000_000, "1a000f4240"), (4_294_967_295, "1affffffff"),
            (4_294_967_296, "1b0000000100000000"), (1_000_000_000_000, "1b000000e8d4a51000"),
            (.max, "1b7fffffffffffffff"), (-1, "20"), (-10, "29"), (-24, "37"), (-25, "3818"),
            (-100, "3863"), (-1000, "3903e7"), (.min, "3b7fffffffffffffff"),
        ] as [(Int64, String)])
    func integers(_ vector: (number: Int64, bytes: String)) throws {
        var writer = CBORWriter()
        writer.write(vector.number)
        #expect(hexadecimal(writer.bytes) == vector.bytes)
        var reader = CBORReader(writer.bytes)
        #expect(try reader.signed() == vector.number)
        try reader.finish()
    }

    @Test("The greatest unsigned integer has the RFC's bytes, and is no signed one")
    func greatestUnsigned() throws {
        var writer = CBORWriter()
        writer.write(UInt64.max)
        #expect(hexadecimal(writer.bytes) == "1bffffffffffffffff")
        var reader = CBORReader(writer.bytes)
        #expect(try reader.unsigned() == .max)
        var signed = CBORReader(writer.bytes)
        #expect(throws: DecodingFailure.self) { try signed.signed() }
        var below = CBORReader(bytes("3bffffffffffffffff"))
        #expect(throws: DecodingFailure.self) { try below.signed() }
    }

    @Test(
        "Floating point has the RFC's bytes, the shortest that keep the value",
        arguments: [
            (0.0, "f90000"), (-0.0, "f98000"), (1.0, "f93c00"), (1.1, "fb3ff199999999999a"),
            (1.5, "f93e00"), (65504.0, "f97bff"), (100_000.0, "fa47c35000"),
            (3.4028234663852886e+38, "fa7f7fffff"), (1.0e+300, "fb7e37e43c8800759c"),
            (5.960464477539063e-8, "f90001"), (0.00006103515625, "f90400"), (-4.0, "f9c400"),
            (-4.1, "fbc010666666666666"), (.infinity, "f97c00"), (-.infinity, "f9fc00"),
            (.nan, "f97e00"), (65505.0, "fa477fe100"), (65536.0, "fa47800000"),
            (0.000030517578125, "f90200"), (2.9802322387695312e-8, "fa33000000"),
            (1.401298464324817e-45, "fa00000001"), (0x1p-1074, "fb0000000000000001"),
        ])
    func doubles(_ vector: (number: Double, bytes: String)) throws {
        var writer = CBORWriter()
        writer.write(vector.number)
        #expect(hexadecimal(writer.bytes) == vector.bytes)
        var reader = CBORReader(writer.bytes)
        #expect(try reader.value() == .double(vector.number))
        try reader.finish()
    }

    @Test("Every half-precision number is read and written as itself")
    func everyHalf() throws {
        var accepted = 0
        for pattern in UInt16.min...UInt16.max {
            let given = [0xF9, UInt8(pattern >> 8), UInt8(pattern & 0xFF)]
            var reader = CBORReader(given)
            guard let value = try? reader.value(), case .double(let number) = value else {
                continue
            }
            accepted += 1
            var writer = CBORWriter()
            writer.write(number)
            if writer.bytes != given { Issue.record("half \(pattern)") }
        }
        // All but the NaNs (2 signs, 1023 payloads). One of those is canonical.
        #expect(accepted == 65536 - 2 * 1023 + 1)
    }

    @Test(
        "Text has the RFC's bytes",
        arguments: [
            ("", "60"), ("a", "6161"), ("IETF", "6449455446"), ("\"\\", "62225c"),
            ("\u{FC}", "62c3bc"), ("\u{6C34}", "63e6b0b4"), ("\u{10151}", "64f0908591"),
        ])
    func texts(_ vector: (text: String, bytes: String)) throws {
        var writer = CBORWriter()
        writer.write(vector.text)
        #expect(hexadecimal(writer.bytes) == vector.bytes)
        var reader = CBORReader(writer.bytes)
        let found = try reader.text()
        #expect(found.utf8.elementsEqual(vector.text.utf8))
    }

    @Test("Bytes, truth values, null and arrays have the RFC's bytes")
    func others() throws {
        func written(_ body: (inout CBORWriter) -> Void) -> String {
            var writer = CBORWriter()
            body(&writer)
            return hexadecimal(writer.bytes)
        }
        #expect(written { $0.write([UInt8]()) } == "40")
        #expect(written { $0.write([1, 2, 3, 4] as [UInt8]) } == "4401020304")
        #expect(written { $0.write(false) } == "f4")
        #expect(written { $0.write(true) } == "f5")
        #expect(written { $0.writeNull() } == "f6")
        #expect(written { $0.write(String?.none) } == "f6")
        #expect(written { $0.beginArray(0) } == "80")
        #expect(written { $0.beginArray(25) } == "9819")
        #expect(written { $0.write(PropertyValue.uri("a")) } == "d8206161")
        #expect(
            written { $0.write(PropertyValue.uuid(1, 2)) }
                == "d8255000000000000000010000000000000002")
    }

    @Test(
        "A value in any form but the canonical one is refused",
        arguments: [
            "1800", "1817", "190000", "1900ff", "1a00000000", "1a0000ffff", "1b0000000000000000",
            "1b00000000ffffffff", "3817", "5800", "580101", "780161", "5f4101ff", "7f6161ff",
            "9fff", "1c", "1d", "1e", "1f", "3f", "5c", "7d", "ff", "f7", "f0", "f800", "f8ff",
            "f818", "fc", "fa3fc00000", "fb3ff8000000000000", "fb40f86a0000000000", "fa7fc00000",
            "fb7ff8000000000000", "f97e01", "f97c01", "f9fe00", "fa7f800000",
            "fb7ff0000000000000", "80", "a0", "c0", "c074323031332d30332d32315432303a30343a30305a",
            "d9002061", "d82500", "d8254f000000000000000000000000000000",
            "d99d6d6161", "d99d6d6331652b", "d99d6d623031", "d99d6d626131",
        ])
    func nonCanonical(_ text: String) {
        var reader = CBORReader(bytes(text))
        #expect(throws: DecodingFailure.self) {
            _ = try reader.value()
            try reader.finish()
        }
    }

    @Test(
        "Text that is not UTF-8 is refused",
        arguments: [
            "61ff", "6180", "62c328", "62c080", "63eda080", "64f4908080", "63e28228", "61c3",
        ])
    func wrongUTF8(_ text: String) {
        var reader = CBORReader(bytes(text))
        #expect(throws: DecodingFailure.self) { try reader.text() }
    }

    @Test(
        "A decimal's text must be canonical", arguments: ["01", "1.0", "+1", "1e2", "", "-0", "x"])
    func decimals(_ text: String) throws {
        var writer = CBORWriter()
        writer.write(PropertyValue.decimal(text))
        var reader = CBORReader(writer.bytes)
        #expect(throws: DecodingFailure.self) { try reader.value() }
    }

    @Test("A claimed size that cannot be true is refused before memory is set aside for it")
    func hugeClaims() {
        for head in ["5b7fffffffffffffff", "7b7fffffffffffffff", "5bffffffffffffffff"] {
            var reader = CBORReader(bytes(head))
            #expect(throws: DecodingFailure.self) { try reader.value() }
        }
        for head in ["9b7fffffffffffffff", "9bffffffffffffffff", "9affffffff", "81"] {
            var reader = CBORReader(bytes(head))
            #expect(throws: DecodingFailure.self) { try reader.array() }
            var vector = CBORReader(bytes(head))
            #expect(throws: DecodingFailure.self) { try vector.vector() }
        }
        var reader = CBORReader(bytes("8500000000"))
        #expect(throws: DecodingFailure.self) { try reader.array() }
        var tight = CBORReader(bytes("8200000000"))
        #expect(throws: DecodingFailure.self) { try tight.array(least: 4) }
    }

    @Test("Nothing at all is no value")
    func empty() throws {
        var reader = CBORReader([])
        #expect(throws: DecodingFailure.self) { try reader.value() }
        #expect(throws: DecodingFailure.self) { try reader.unsigned() }
        #expect(throws: DecodingFailure.self) { try reader.boolean() }
        #expect(throws: DecodingFailure.self) { try reader.optionalText() }
        try reader.finish()
    }

    @Test("Nodes, dots, timestamps and vectors out of bounds are refused")
    func domainBounds() throws {
        var node = CBORReader(bytes("00"))
        #expect(throws: DecodingFailure.self) { try node.node() }
        node = CBORReader(bytes("198000"))
        #expect(throws: DecodingFailure.self) { try node.node() }
        var dot = CBORReader(bytes("83010100"))
        #expect(throws: DecodingFailure.self) { try dot.dot() }
        var time = CBORReader(bytes("1b8000000000000000"))
        #expect(throws: DecodingFailure.self) { try time.timestamp() }
        for text in ["8401010101", "83010100", "86020101010101", "86010101010101"] {
            var vector = CBORReader(bytes(text))
            #expect(throws: DecodingFailure.self, "\(text)") { try vector.vector() }
        }
        var good = CBORReader(bytes("86010103020105"))
        let vector = try good.vector()
        #expect(vector.entries.map(\.sequence) == [3, 5])
    }
}

/// The bytes that hexadecimal digits stand for; a digit left over is left out.
func bytes(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map {
        UInt8(digits[$0] << 4 | digits[$0 + 1])
    }
}

/// Two digits a byte.
func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
