import Merge
import Testing

/// These figures are stored in files and sent to other nodes: a change here is a new format.
@Suite("StableHasher")
struct StableHasherTests {
    private func hash(seed: UInt64 = 0, _ body: (inout StableHasher) -> Void) -> String {
        var hasher = StableHasher(seed: seed)
        body(&hasher)
        let (high, low) = hasher.finalize()
        return "\(String(high, radix: 16)) \(String(low, radix: 16))"
    }

    @Test("The hash of given content never changes")
    func goldenValues() {
        #expect(hash { _ in } == "ac934d883e6fb468 c211afc0c411bc3e")
        #expect(hash(seed: 1) { _ in } == "757c8c406e7c564c a430cf146b932a42")
        #expect(hash { $0.combine(UInt64(42)) } == "fa28b56a65d35dc6 3c8d661af9ba7f70")
        #expect(hash { $0.combine("Tributary") } == "9852f7103de0a3cd 41b276bb7d21c148")
        #expect(hash { $0.combine([UInt8](0...16)) } == "e8a10cd035a4f7fc c52312e2ab3a06ac")
        #expect(hash { $0.combine(dot(2, 117)) } == "7e3abaac90a3b1e4 9a6548b3a904b876")
    }

    @Test(
        "The hash of a value never changes",
        arguments: [
            (PropertyValue.null, "44d8b95e815056ef fb4654d0f4f906f3"),
            (.boolean(true), "7649cecd00cb60ef f2dfafd36f1e3f16"),
            (.integer(-1), "70ad99663f3c8ec9 27d378b90a02a1d2"),
            (.double(1.5), "441957c2b6adc2b b2da7ef48797440"),
            (.double(.nan), "85f8f26a635ef8a2 46356fa8c1a00554"),
            (.decimal("1.5"), "a70ff0ccd400f464 cfa6c9b0e97b76cc"),
            (.string("caf\u{E9}"), "bd3a9388a5697162 4c3f2d248c4c88fc"),
            (.date(1_704_067_200_000), "668bb09b2d2d2d64 5a8c6a7d73266688"),
            (.binary([1, 2, 3]), "3b71f4216633cc48 ed2abc1e96bbd93"),
            (.uuid(1, 2), "a7182dd61143ff09 dcc89512dc26eeda"),
            (.uri("https://example.org/"), "b6dea72236435a7a d61263699737903f"),
            (.reference(RowID(7)), "db552efbb00351f5 f84c1dcb87b7d9"),
        ])
    func goldenHashesOfValues(_ pair: (value: PropertyValue, expected: String)) {
        #expect(hash { $0.combine(pair.value) } == pair.expected)
    }

    @Test("The checksum of given bytes never changes")
    func goldenChecksum() {
        #expect(String(Transaction.checksum([]), radix: 16) == "d8fc0055762da86b")
        #expect(String(Transaction.checksum([UInt8](0...255)), radix: 16) == "dcfbeff9c56345d8")
    }

    @Test("Values that are not equal hash differently, and 1, 1.0 and true differ")
    func valuesDiffer() {
        let values: [PropertyValue] = [
            .null, .boolean(false), .boolean(true), .integer(0), .integer(1), .double(1),
            .double(0), .double(-0.0), .decimal("1"), .string("1"), .string(""), .string("\u{0}"),
            .string("caf\u{E9}"), .string("cafe\u{301}"), .date(1), .binary([]), .binary([0]),
            .binary([0, 0]), .uuid(0, 1), .uuid(1, 0), .uri("1"), .reference(RowID(1)),
        ]
        #expect(Set(values.map { value in hash { $0.combine(value) } }).count == values.count)
    }

    @Test("Every single bit of the input matters, and every length")
    func everyBitMatters() {
        var found: Set<String> = []
        for count in 0..<20 {
            let base = [UInt8](repeating: 0, count: count)
            found.insert(hash { $0.combine(base) })
            for bit in 0..<count * 8 {
                var bytes = base
                bytes[bit / 8] ^= 1 << UInt8(bit % 8)
                found.insert(hash { $0.combine(bytes) })
            }
        }
        #expect(found.count == 20 + 8 * (0..<20).reduce(0, +))
    }
}
