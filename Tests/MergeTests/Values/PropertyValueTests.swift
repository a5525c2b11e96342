import Merge
import Testing

@Suite("PropertyValue")
struct PropertyValueTests {
    private static let composed = "caf\u{E9}"
    private static let decomposed = "cafe\u{301}"

    @Test("Text is compared byte by byte, so a composed and a decomposed accent differ")
    func textIsBytes() {
        #expect(Self.composed == Self.decomposed, "to Swift they are one")
        for make in [PropertyValue.string, PropertyValue.uri, PropertyValue.decimal] {
            #expect(make(Self.composed) != make(Self.decomposed))
            #expect(make(Self.composed) == make(Self.composed))
        }
        #expect(PropertyValue.string("a") != .string("a\u{0}"))
    }

    @Test("Every NaN is one value, and zero's sign counts")
    func doubles() {
        let payload = Double(bitPattern: 0x7FF0_0000_0000_0001)
        #expect(PropertyValue.double(.nan) == .double(payload))
        #expect(PropertyValue.double(.nan) == .double(-Double.nan))
        #expect(PropertyValue.double(-0.0) != .double(0.0))
        #expect(PropertyValue.double(.infinity) != .double(-.infinity))
        #expect(PropertyValue.double(1) == .double(1))
    }

    @Test("Values of different kinds are never equal")
    func kindsDiffer() {
        let values: [PropertyValue] = [
            .null, .boolean(false), .boolean(true), .integer(1), .double(1), .decimal("1"),
            .string("1"), .date(1), .binary([1]), .uuid(0, 1), .uri("1"), .reference(RowID(1)),
        ]
        for (left, first) in values.enumerated() {
            for (right, second) in values.enumerated() {
                #expect((first == second) == (left == right))
            }
        }
        #expect(PropertyValue.null.isNull)
        #expect(!PropertyValue.string("").isNull)
    }

    @Test("Equal values hash equally")
    func hashing() {
        let payload = Double(bitPattern: 0x7FF0_0000_0000_0001)
        #expect(Set([PropertyValue.double(.nan), .double(payload)]).count == 1)
        #expect(Set([PropertyValue.double(0.0), .double(-0.0)]).count == 2)
        let texts = [PropertyValue.string(Self.composed), .string(Self.decomposed)]
        #expect(Set(texts + texts).count == 2)
    }
}
