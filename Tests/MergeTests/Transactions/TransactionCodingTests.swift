import Merge
import Testing

@Suite("Canonical bytes of transactions")
struct TransactionCodingTests {
    @Test("Every transaction is read back as the same, and its bytes as themselves")
    func roundTrips() throws {
        var source = RandomTransaction(seed: 61)
        var changes = 0
        for _ in 0..<2500 {
            let transaction = source.next()
            changes += transaction.changes.count
            let bytes = transaction.encoded()
            let decoded = try Transaction.decode(bytes)
            if decoded != transaction { Issue.record("\(transaction) became \(decoded)") }
            if decoded.encoded() != bytes { Issue.record("the bytes of \(transaction)") }
        }
        #expect(changes > 2500)
    }

    @Test("The layout of a transaction never changes")
    func goldenBytes() {
        let transaction = Transaction(
            dot: dot(2, 3), timestamp: timestamp(5, counter: 1), seen: vector([1: 4, 2: 2]),
            author: "a", saveID: "s", modelHash: [UInt8](repeating: 7, count: 32),
            shapes: [
                ChangeShape(entity: "E", assigned: ["p"], carried: ["q"]),
                ChangeShape(entity: "E.r", assigned: []),
            ],
            changes: [
                Change(kind: .insert, shape: 0, row: RowID(9), values: [.integer(1), .null]),
                Change(kind: .link, shape: 1, row: RowID(9), target: RowID(10)),
            ])
        let expected =
            "8c010218a0031a00050001860118a0040218a0026161f66173"
            + "5820" + String(repeating: "07", count: 32)
            + "828361458161708161718363452e728080" + "828500000901f6840401090a"
        #expect(hexadecimal(transaction.encoded()) == expected)
        // The same where the frontier is less than what it has seen.
        let head = "8c010218a003" + "1a00050001"
        #expect(expected.hasPrefix(head + "860118a0040218a002"))
        let told = head + "830218a002"
        #expect(
            hexadecimal(transaction.encoded(telling: vector([2: 2])))
                == told + expected.dropFirst((head + "860118a0040218a002").count))
    }

    @Test("What a frontier leaves out of what was seen comes back by the beginnings, byte for byte")
    func frontiers() throws {
        var beginnings = Beginnings()
        beginnings.note(actor(3), vector([1: 4]))
        let transaction = Transaction(
            dot: dot(2, 3), timestamp: timestamp(5), seen: vector([1: 4, 2: 2, 3: 7]),
            modelHash: [UInt8](repeating: 7, count: 32), shapes: [], changes: [])
        let encoded = EncodedTransaction(transaction, beginnings: beginnings)
        #expect(encoded.frontier == vector([2: 2, 3: 7]))
        let decoded = try EncodedTransaction(decoding: encoded.bytes)
        #expect(decoded.transaction.seen == vector([2: 2, 3: 7]))
        #expect(decoded.frontier == encoded.frontier)
        #expect(decoded.completed(by: beginnings) == encoded)
        #expect(decoded.transaction.encoded(telling: decoded.frontier) == encoded.bytes)
        // A writer that knows no beginnings tells everything.
        let whole = EncodedTransaction(transaction)
        #expect(whole.frontier == transaction.seen)
        #expect(try EncodedTransaction(decoding: whole.bytes).completed(by: beginnings) == whole)
        // Its own actor's entry is always told.
        var own = Beginnings()
        own.note(actor(3), vector([2: 2]))
        #expect(EncodedTransaction(transaction, beginnings: own).frontier[actor(2)] == 2)
    }

    @Test("A transaction that breaks a rule of the format is refused")
    func rules() {
        refuses { $0.modelHash = [1] }
        refuses { $0.seen = vector([1: 1]) }
        refuses { $0.seen = vector([2: 3]) }
        refuses { $0.dot = dot(2, 0) }
        refuses { $0.changes[0].shape = 1 }
        refuses { $0.changes[0].row = RowID(0) }
        refuses { $0.changes[0].row = RowID(-1) }
        refuses { $0.changes[0].target = RowID(1) }
        refuses { $0.changes[0].kind = .link }
        refuses {
            $0.changes[0].kind = .link
            $0.changes[0].target = RowID(0)
        }
        refuses { $0.changes[0].values = [] }
        refuses { $0.changes[0].values.append(.null) }
        refuses { $0.shapes[0] = ChangeShape(entity: "E", assigned: ["p"], carried: ["p"]) }
        refuses { $0.shapes[0].assigned = (0...2000).map { "p\($0)" } }
        refuses { $0.shapes = [] }
    }

    @Test("Every beginning of a transaction's bytes is refused, and any byte too many")
    func wrongLength() {
        let bytes = Self.plain.encoded()
        for count in 0..<bytes.count {
            #expect(throws: DecodingFailure.self) {
                try Transaction.decode([UInt8](bytes[..<count]))
            }
        }
        for byte: UInt8 in [0, 0xF6, 0xFF] {
            #expect(throws: DecodingFailure.self) { try Transaction.decode(bytes + [byte]) }
        }
    }

    @Test("Any other format is refused", arguments: [0, 2, 23] as [UInt8])
    func otherFormat(_ format: UInt8) {
        var bytes = Self.plain.encoded()
        #expect(bytes[1] == 1)
        bytes[1] = format
        let failure = #expect(throws: DecodingFailure.self) { try Transaction.decode(bytes) }
        #expect(failure?.description.contains("transaction format \(format)") == true)
    }

    @Test("Encoded once, a transaction keeps its bytes and its name")
    func encodedTransaction() throws {
        let encoded = EncodedTransaction(Self.plain)
        #expect(try EncodedTransaction(decoding: encoded.bytes) == encoded)
        #expect(encoded.dot == Self.plain.dot)
    }

    private static var plain: Transaction {
        Transaction(
            dot: dot(2, 3), timestamp: timestamp(5), seen: vector([2: 2]),
            modelHash: [UInt8](repeating: 7, count: 32),
            shapes: [ChangeShape(entity: "E", assigned: ["p"])],
            changes: [Change(kind: .update, shape: 0, row: RowID(9), values: [.string("x")])])
    }

    private func refuses(
        _ damage: (inout Transaction) -> Void, at location: SourceLocation = #_sourceLocation
    ) {
        var transaction = Self.plain
        damage(&transaction)
        #expect(throws: DecodingFailure.self, sourceLocation: location) {
            try Transaction.decode(transaction.encoded())
        }
    }
}
