import Merge
import TestSupport
import Testing

/// Foreign bytes, damaged and invented: they are refused, or they are canonical. Nothing traps.
@Suite("Hostile bytes")
struct HostileBytesTests {
    static let inputs = 52_000

    @Test("Bytes are refused, or encode to themselves again", arguments: [1, 2, 3, 4] as [UInt64])
    func mutatedBytes(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var source = RandomTransaction(seed: seed << 8)
        let seeds = (0..<200).map { _ in source.next().encoded() }.filter { $0.count < 400 }
        var accepted = 0
        for _ in 0..<Self.inputs {
            let input = damaged(random.pick(seeds), other: random.pick(seeds), &random)
            guard let transaction = try? Transaction.decode(input) else { continue }
            accepted += 1
            let again = transaction.encoded()
            // What an earlier program wrote one by one is written as a run now.
            let isEarlier = input[1] == 1 && again[1] == 2
            let isSame =
                isEarlier ? (try? Transaction.decode(again)) == transaction : again == input
            if !isSame {
                Issue.record("not canonical: \(hexadecimal(input))")
                return
            }
        }
        #expect(accepted > Self.inputs / 50, "hardly an input got past the first check")
        #expect(accepted < Self.inputs * 9 / 10, "hardly an input was damaged")
    }

    @Test("Invented values are refused, or encode to themselves again")
    func inventedValues() {
        var random = SeededGenerator(seed: 71)
        let heads: [UInt8] = [0x18, 0x1B, 0x38, 0x42, 0x62, 0x63, 0xD8, 0xD9, 0xF9, 0xFA, 0xFB]
        var accepted = 0
        for _ in 0..<60_000 {
            var input = (0..<1 + random.below(10)).map { _ in UInt8(random.below(256)) }
            if random.once(in: 2) { input[0] = random.pick(heads) }
            if random.once(in: 4) { input = [0xD9, 0x9D, UInt8(0x6C + random.below(3))] + input }
            var reader = CBORReader(input)
            guard let value = try? reader.value() else { continue }
            accepted += 1
            var writer = CBORWriter()
            writer.write(value)
            if writer.bytes != [UInt8](input[..<reader.offset]) {
                Issue.record("not canonical: \(hexadecimal(input))")
                return
            }
        }
        #expect(accepted > 5000)
    }

    @Test("A decimal numeral in a transaction can say nothing that traps")
    func hostileDecimals() {
        var random = SeededGenerator(seed: 72)
        let pieces = [
            "1", "0", "-", "+", ".", "e", "E", "9223372036854775807", "9223372036854775808",
            "76", "38", "00000000", "\u{661}", "\u{301}", "99999999999999999999",
        ]
        for _ in 0..<10_000 {
            let text = (0..<random.below(6)).map { _ in random.pick(pieces) }.joined()
            var writer = CBORWriter()
            writer.write(PropertyValue.decimal(text))
            var reader = CBORReader(writer.bytes)
            if let value = try? reader.value(), value != .decimal(text) {
                Issue.record("\(text) was read as \(value)")
            }
        }
    }

    /// One or a few of: a bit, a byte, a head that claims much, bytes lost, doubled or foreign.
    private func damaged(
        _ whole: [UInt8], other: [UInt8], _ random: inout SeededGenerator
    ) -> [UInt8] {
        var input = whole
        for _ in 0..<random.below(3) {
            guard !input.isEmpty else { break }
            let place = random.below(input.count)
            switch random.below(7) {
            case 0, 1: input[place] ^= 1 << UInt8(random.below(8))
            case 2: input[place] = UInt8(random.below(256))
            case 3:
                let major = UInt8(random.below(8)) << 5
                let claim = [UInt8](repeating: UInt8(random.below(256)), count: 8)
                input.replaceSubrange(place...place, with: [major | 27] + claim)
            case 4: input.removeSubrange(place..<min(input.count, place + 1 + random.below(8)))
            case 5: input.insert(input[place], at: place)
            default:
                let cut = random.below(other.count)
                input.replaceSubrange(place..., with: other[cut...])
            }
        }
        return input
    }
}
