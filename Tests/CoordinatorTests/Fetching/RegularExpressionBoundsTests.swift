import Coordinator
import Testing

@Suite("Bounds of regular expressions")
struct RegularExpressionBoundsTests {
    // Written out one by one they would take 1000 to the twelfth steps: then this never ends.
    @Test("Nested counts of nothing are compiled")
    func nothingCounted() throws {
        let counts = String(repeating: "){1000}", count: 12)
        let opened = String(repeating: "(", count: 12)
        for nothing in ["a{0}", "(a{0}b{0}){3}", "\u{301}"] {
            let pattern = opened + nothing + counts + "c"
            let expression = try RegularExpression(pattern, options: .diacriticInsensitive)
            #expect(expression.matches("c"))
            #expect(!expression.matches("ac"))
        }
    }

    @Test("Counts that are written out are bounded")
    func bounded() {
        #expect(throws: PatternError.self) { try RegularExpression("((a{100}){100}){100}") }
        #expect(throws: PatternError.self) { try RegularExpression("(((a?){100}){100}){100}") }
    }
}
