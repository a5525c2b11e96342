import Merge
import TestSupport

/// Makes transactions of every kind of change and value.
struct RandomTransaction {
    var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    mutating func next() -> Transaction {
        let writer = actor(1 + random.below(5), incarnation: number())
        let sequence = 1 + UInt64(random.below(1000))
        var seen = VersionVector()
        for _ in 0..<random.below(4) {
            seen.advance(actor(6 + random.below(30_000), incarnation: number()), to: number() | 1)
        }
        seen.advance(writer, to: sequence - 1)
        let shapes = (0..<1 + random.below(3)).map { shape($0) }
        return Transaction(
            dot: Dot(actor: writer, sequence: sequence),
            timestamp: timestamp(UInt64(random.below(1 << 40)), counter: UInt16(random.below(9))),
            seen: seen, author: optionalText(), contextName: optionalText(),
            saveID: optionalText(), note: random.once(in: 4) ? text() : nil,
            modelHash: (0..<32).map { _ in UInt8(random.below(256)) }, shapes: shapes,
            changes: (0..<random.below(5)).map { _ in change(shapes) })
    }

    private mutating func shape(_ number: Int) -> ChangeShape {
        ChangeShape(
            entity: "Entity\(number)", assigned: (0..<random.below(4)).map { "a\($0)" },
            carried: (0..<random.below(3)).map { "c\($0)" })
    }

    private mutating func change(_ shapes: [ChangeShape]) -> Change {
        let kind = random.pick(Change.Kind.allCases)
        let shape = random.below(shapes.count)
        let isLink = kind == .link || kind == .unlink
        return Change(
            kind: kind, shape: shape, row: row(), target: isLink ? row() : nil,
            values: (0..<shapes[shape].valueCount).map { _ in value() })
    }

    /// Of any magnitude.
    private mutating func number() -> UInt64 { random.next() >> UInt64(random.below(64)) }

    private mutating func row() -> RowID { RowID(Int64(number() >> 1) | 1) }

    private mutating func text() -> String {
        let letters = ["a", "z", "\u{E9}", "e\u{301}", "\u{6C34}", "\u{1F333}", "\u{0}", " "]
        return (0..<random.below(30)).map { _ in random.pick(letters) }.joined()
    }

    private mutating func optionalText() -> String? { random.once(in: 2) ? nil : text() }

    mutating func value() -> PropertyValue {
        switch random.below(13) {
        case 0: return .null
        case 1: return .boolean(random.once(in: 2))
        case 2: return .integer(Int64(bitPattern: number()))
        case 3: return .integer(-Int64(number() >> 1))
        case 4: return .double(Double(bitPattern: random.next()))
        case 5: return .double(Double(random.below(4000)) / 8)
        case 6: return .double(Double(Float(random.below(1 << 24)) / 3))
        case 7:
            let digits = "\(Int64(bitPattern: number()))e\(random.below(20) - 15)"
            return .decimal(PropertyValue.canonicalDecimal(digits) ?? "0")
        case 8: return .string(text())
        case 9: return .date(Int64(bitPattern: number()))
        case 10: return .binary((0..<random.below(300)).map { UInt8(truncatingIfNeeded: $0) })
        case 11: return random.once(in: 2) ? .uuid(random.next(), number()) : .uri(text())
        default: return .reference(row())
        }
    }
}
