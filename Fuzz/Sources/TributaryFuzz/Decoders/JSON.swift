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
