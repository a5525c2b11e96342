@testable import Coordinator

extension Decoder {
    /// Regular expressions and the texts they are asked of.
    ///
    /// Input: a byte of options, the pattern, a zero, the text.
    static let pattern = Decoder(
        name: "pattern", maximumLength: 1024,
        seeds: { _ in
            [
                ("[a-z]+(x|y)*", "abcxyx"), ("(?:a|b|)?c{2,3}", "acc"), ("\\d+\\.\\w*", "12.ab"),
                ("^a.*?\\u00e9$", "a\nb\u{E9}"), ("[^\\]\\-a-z\\s]", "A"), ("((a*)*)*", "aaaa"),
                ("a{0}b{1,}", "b"), ("e\u{301}", "\u{E9}"), ("", ""), ("(|a)+", "aaa"),
                ("STRASSE|stra\u{DF}e", "STRASSE"),
            ].enumerated().map { index, seed in
                [UInt8(index % 4)] + Array(seed.0.utf8) + [0] + Array(seed.1.utf8)
            }
        },
        run: { bytes in
            guard let first = bytes.first else { return }
            let halves = bytes.dropFirst().split(
                separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
            let options = ComparisonOptions(
                (first & 1 == 0 ? [] : [.caseInsensitive])
                    + (first & 2 == 0 ? [] : [.diacriticInsensitive]))
            let pattern = String(decoding: halves[0], as: UTF8.self)
            guard
                let expression = attempt(
                    throwing: PatternError.self,
                    { try RegularExpression(pattern, options: options) })
            else { return }
            _ = expression.matches(
                halves.count == 2 ? String(decoding: halves[1], as: UTF8.self) : "")
        })
}
