import Merge

@testable import Coordinator

extension Decoder {
    /// JSON, which every request's body is.
    static let json = Decoder(
        name: "json", maximumLength: 4096,
        seeds: { _ in
            let deep = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
            return [
                "null", "[]", "{}", "true", "-0", "1e-7", "-12.5E+3", "9223372036854775807",
                "9223372036854775808", "\"\"", "\"\\u00e9\\ud83c\\udf33\\n\\\"\"", deep,
                "{\"a\":{\"b\":[1,2.5,null,false,\"c\"]},\"\":[]}", " [ 1 , { } ] \n",
                "{\"operations\":[{\"insert\":\"Person\",\"id\":\"@p\",\"values\":{}}]}",
            ].map { Array($0.utf8) }
        },
        run: { bytes in
            guard
                let value = attempt(throwing: JSONError.self, { try JSONParser.parse(bytes) })
            else { return }
            for isPretty in [false, true] {
                let written = JSONWriter.bytes(of: value, pretty: isPretty)
                demand(
                    attempt(
                        throwing: JSONError.self,
                        { try JSONParser.parse(written, maximumDepth: 65) })
                        == value, "what is written reads otherwise")
            }
        })
}

extension Decoder {
    /// CBOR, which the body of a save or a fetch may be.
    static let cbor = Decoder(
        name: "cbor", maximumLength: 4096,
        seeds: { _ in
            let texts = [
                "null", "[]", "{}", "-0.0", "1.1", "65504.0", "9223372036854775807", "\"\\u00e9\"",
                "{\"a\":{\"b\":[1,2.5,null,false,\"c\"]},\"\":[]}",
                "{\"operations\":[{\"insert\":\"Person\",\"id\":\"@p\",\"values\":{}}]}",
            ]
            let written = try texts.map {
                CBORWriter.bytes(of: try JSONParser.parse(Array($0.utf8)))
            }
            let deep = [UInt8](repeating: 0x81, count: 64) + [0]
            return written + [
                deep, [0x9F, 0xBF, 0x61, 0x61, 0x7F, 0x61, 0x62, 0xFF, 0xFF, 0xFF],
                [0x5F, 0x42, 1, 2, 0x41, 3, 0xFF], [0x1B] + [UInt8](repeating: 0xFF, count: 8),
            ]
        },
        run: { bytes in
            guard
                let value = attempt(throwing: CBORError.self, { try CBORParser.parse(bytes) })
            else { return }
            let written = CBORWriter.bytes(of: value)
            demand(
                attempt(throwing: CBORError.self, { try CBORParser.parse(written) }) == value,
                "what is written reads otherwise")
            demand(
                attempt(
                    throwing: JSONError.self,
                    { try JSONParser.parse(JSONWriter.bytes(of: value), maximumBytes: .max) })
                    != nil,
                "what CBOR says JSON cannot say")
        })
}
