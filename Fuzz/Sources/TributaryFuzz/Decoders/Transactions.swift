@testable import Merge

extension Decoder {
    /// A transaction's canonical bytes, from the mesh and from the log.
    static let transaction = Decoder(
        name: "transaction", maximumLength: 4096,
        seeds: { random in
            (0..<40).map { number in
                let transaction = random.transaction()
                if number.isMultiple(of: 2) { return transaction.encoded() }
                // As by a node that knows the beginnings of some of those it has seen.
                return transaction.encoded(
                    telling: transaction.seen.filter {
                        $0.actor == transaction.dot.actor || random.chance(50)
                    })
            }
        },
        run: { bytes in
            guard
                let encoded = attempt(
                    throwing: DecodingFailure.self, { try EncodedTransaction(decoding: bytes) })
            else { return }
            let again = encoded.transaction.encoded(telling: encoded.frontier)
            // What an earlier program wrote one by one is written as a run now.
            let isEarlier = bytes[1] == 1 && again[1] == 2
            demand(again == bytes || isEarlier, "a transaction has two encodings")
        })
}

extension Random {
    mutating func actor(_ numbers: ClosedRange<Int>) -> ActorID {
        let number = numbers.lowerBound + below(numbers.count)
        guard let node = NodeID(number) else { preconditionFailure("\(number) is no node") }
        return ActorID(node: node, incarnation: self.number())
    }

    mutating func row() -> RowID { RowID(Int64(number() >> 1) | 1) }

    mutating func text() -> String {
        let letters = ["a", "z", "\u{E9}", "e\u{301}", "\u{6C34}", "\u{1F333}", "\u{0}", " "]
        return (0..<below(12)).map { _ in pick(letters) }.joined()
    }

    mutating func optionalText() -> String? { chance(50) ? nil : text() }

    mutating func timestamp() -> HybridTimestamp {
        HybridTimestamp(rawValue: next() >> 1) ?? .zero
    }

    /// A value of any kind.
    mutating func value() -> PropertyValue {
        switch below(12) {
        case 0: return .null
        case 1: return .boolean(chance(50))
        case 2: return .integer(Int64(bitPattern: number()))
        case 3: return .double(Double(bitPattern: next()))
        case 4: return .double(Double(below(4000)) / 8)
        case 5: return .decimal(PropertyValue.canonicalDecimal("\(number())e-3") ?? "0")
        case 6: return .string(text())
        case 7: return .date(Int64(bitPattern: number()))
        case 8: return .binary((0..<below(40)).map { UInt8(truncatingIfNeeded: $0) })
        case 9: return .uuid(next(), number())
        case 10: return .uri(text())
        default: return .reference(row())
        }
    }

    /// A whole transaction that fits no model.
    mutating func transaction() -> Transaction {
        let writer = actor(1...5)
        let sequence = 1 + UInt64(below(1000))
        var seen = VersionVector()
        for _ in 0..<below(4) { seen.advance(actor(6...30_000), to: number() | 1) }
        seen.advance(writer, to: sequence - 1)
        let shapes = (0..<1 + below(3)).map { number in
            ChangeShape(
                entity: "Entity\(number)", assigned: (0..<below(4)).map { "a\($0)" },
                carried: (0..<below(3)).map { "c\($0)" })
        }
        return Transaction(
            dot: Dot(actor: writer, sequence: sequence), timestamp: timestamp(), seen: seen,
            author: optionalText(), contextName: optionalText(), saveID: optionalText(),
            modelHash: (0..<32).map { _ in UInt8(below(256)) }, shapes: shapes,
            changes: (0..<below(5)).map { _ in change(shapes) })
    }

    private mutating func change(_ shapes: [ChangeShape]) -> Change {
        let kind = pick(Change.Kind.allCases)
        let shape = below(shapes.count)
        return Change(
            kind: kind, shape: shape, row: row(),
            target: kind == .link || kind == .unlink ? row() : nil,
            values: (0..<shapes[shape].valueCount).map { _ in value() })
    }
}
