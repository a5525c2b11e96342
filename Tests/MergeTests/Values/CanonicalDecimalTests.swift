import Merge
import TestSupport
import Testing

@Suite("Canonical decimals")
struct CanonicalDecimalTests {
    @Test(
        "A numeral has one canonical text",
        arguments: [
            ("0", "0"), ("-0", "0"), ("+0", "0"), ("0.000", "0"), ("0e5", "0"), ("00", "0"),
            ("1", "1"), ("+1", "1"), ("-1", "-1"), ("007", "7"), ("1.50", "1.5"), (".5", "0.5"),
            ("-.5", "-0.5"), ("5.", "5"), ("100", "100"), ("1e2", "100"), ("1E+2", "100"),
            ("100e-2", "1"), ("10e-5", "0.0001"), ("12.34e1", "123.4"), ("12.34e-3", "0.01234"),
            ("1e37", "1" + String(repeating: "0", count: 37)),
            ("1e-38", "0." + String(repeating: "0", count: 37) + "1"),
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        ])
    func canonicalText(_ pair: (given: String, expected: String)) {
        #expect(PropertyValue.canonicalDecimal(pair.given) == pair.expected)
    }

    @Test(
        "What is no numeral, or has more than 38 digits or places, is refused",
        arguments: [
            "", "-", "+", ".", "-.", "e", "e5", "1e", "1e+", "--1", "+-1", "1.2.3", "1e2e3",
            "1e1.5", "0x10", "1_000", "1,5", " 1", "1 ", "\u{661}", "1\u{661}", "1e\u{661}",
            "\u{FF11}", "1\u{301}", "-\u{301}1", "nan", "inf", "1e999", "1e-999", "1e38",
            "1e-39", "1e77", "1e-77", "1e9223372036854775807", "1e-9223372036854775808",
            "1e9223372036854775808", "123456789012345678901234567890123456789",
            "0.000000000000000000000000000000000000001", "1\u{0}", "\u{0}",
        ])
    func refusals(_ text: String) { #expect(PropertyValue.canonicalDecimal(text) == nil) }

    @Test("A numeral of any length ends in an answer")
    func veryLong() {
        for digit in ["0", "9", ".", "e", "-", "\u{661}"] {
            #expect(PropertyValue.canonicalDecimal(String(repeating: digit, count: 100_000)) == nil)
        }
        let exponent = "1e" + String(repeating: "9", count: 100_000)
        #expect(PropertyValue.canonicalDecimal(exponent) == nil)
    }

    @Test("Canonical text is its own canonical text, and keeps the value")
    func idempotent() throws {
        var random = SeededGenerator(seed: 41)
        var accepted = 0
        let alphabet = Array("0001259.e-+")
        for _ in 0..<8000 {
            let text = String((0..<1 + random.below(9)).map { _ in random.pick(alphabet) })
            guard let canonical = PropertyValue.canonicalDecimal(text) else { continue }
            accepted += 1
            #expect(PropertyValue.canonicalDecimal(canonical) == canonical, "\(text)")
            #expect(!canonical.contains("e") && !canonical.contains("+"), "\(text)")
            let given = try #require(Double(text))
            let found = try #require(Double(canonical))
            #expect(given == found, "\(text)")
        }
        #expect(accepted > 1000)
    }
}
