import Testing

@testable import Merge

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

    @Test("A note has a format of its own, with runs and without, and a bound")
    func notes() throws {
        var transaction = Transaction(
            dot: dot(2, 3), timestamp: timestamp(5), seen: vector([2: 2]), saveID: "s",
            modelHash: [UInt8](repeating: 7, count: 32),
            shapes: [ChangeShape(entity: "E", assigned: [])],
            changes: [Change(kind: .delete, shape: 0, row: RowID(9))])
        let format = { (transaction: Transaction) in transaction.encoded()[1] }
        #expect(format(transaction) == 1)
        transaction.note = "why"
        #expect(format(transaction) == 3)
        transaction.changes.append(Change(kind: .delete, shape: 0, row: RowID(10)))
        #expect(format(transaction) == 4)
        #expect(try Transaction.decode(transaction.encoded()) == transaction)
        transaction.note = nil
        #expect(format(transaction) == 2)
        transaction.note = String(repeating: "n", count: Transaction.Bounds.noteBytes + 1)
        #expect(throws: DecodingFailure.self) { try Transaction.decode(transaction.encoded()) }
        // The number of parts and the format belong together.
        transaction.note = "why"
        var bytes = transaction.encoded()
        bytes[1] = 2
        #expect(throws: DecodingFailure.self) { try Transaction.decode(bytes) }
    }

    @Test("Name, time and heading are read without the rest, of every format")
    func heads() throws {
        var source = RandomTransaction(seed: 67)
        var formats = Set<UInt8>()
        for _ in 0..<500 {
            let transaction = source.next()
            let bytes = transaction.encoded()
            formats.insert(bytes[1])
            let head = try Transaction.head(Array(bytes.prefix(Transaction.headBytes)))
            #expect(head.dot == transaction.dot)
            #expect(head.timestamp == transaction.timestamp)
            var heading = transaction
            heading.shapes = []
            heading.changes = []
            #expect(try Transaction.decodeHeading(bytes) == heading)
        }
        #expect(formats.isSuperset(of: [1, 3]))
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

    private static func changes(
        _ kind: Change.Kind, _ rows: [Int64], _ values: [PropertyValue] = []
    ) -> [Change] {
        rows.map {
            Change(kind: kind, shape: kind == .delete ? 1 : 0, row: RowID($0), values: values)
        }
    }

    private static func ofRuns(_ changes: [Change]) -> Transaction {
        var transaction = plain
        transaction.shapes.append(ChangeShape(entity: "E", assigned: []))
        transaction.changes = changes
        return transaction
    }

    @Test("Changes that differ in their rows alone are told by ranges, and come back one by one")
    func runs() throws {
        let base: Int64 = 1 << 40
        let same: [PropertyValue] = [.string("x")]
        let many = Self.ofRuns(Self.changes(.update, (0..<10_000).map { base + $0 }, same))
        let apart = Self.ofRuns(Self.changes(.delete, (0..<10_000).map { base + 3 * $0 }))
        for (transaction, bound) in [(many, 150), (apart, 20_150)] {
            let bytes = transaction.encoded()
            #expect(bytes.count < bound)
            #expect(bytes[1] == 2)
            #expect(try Transaction.decode(bytes) == transaction)
            let received = try ReceivedTransaction(checking: bytes)
            #expect(received.changeCount == 10_000)
            #expect(received.valueCount == transaction.changes.reduce(0) { $0 + $1.values.count })
            // Its few bytes are bounded as the many they stand for.
            var plain = transaction
            for index in plain.changes.indices {
                plain.changes[index].row = RowID(base - Int64(index))
            }
            #expect(received.plainSize >= plain.encoded().count)
            #expect(received.plainSize < 2 * plain.encoded().count)
            #expect(EncodedTransaction(transaction).plainSize == received.plainSize)
        }
        // What is in another order, of another kind or has another value begins another one.
        let mixed = Self.ofRuns(
            Self.changes(.update, [9, 10], same) + Self.changes(.update, [3, 4, 5], same)
                + Self.changes(.update, [6], [.null]) + Self.changes(.update, [7], same)
                + Self.changes(.delete, [8, .max]) + Self.changes(.insert, [11], same))
        #expect(try Transaction.decode(mixed.encoded()) == mixed)
        #expect(ChangeRun.parts(of: mixed.changes) == [0..<2, 2..<5, 5..<6, 6..<7, 7..<9, 9..<10])
        // As an earlier program wrote them.
        let single = Self.ofRuns(Self.changes(.update, [9], same)).encoded()
        #expect(single[1] == 1)
    }

    @Test("A run that breaks a rule of the format is refused")
    func wrongRuns() throws {
        /// A transaction with parts that are written by hand.
        func bytes(_ parts: [(inout CBORWriter) -> Void], format: UInt64 = 2) -> [UInt8] {
            var writer = CBORWriter(capacity: 64)
            for part in parts { part(&writer) }
            var head = Self.ofRuns([]).encoded()
            head[1] = UInt8(format)
            head[head.count - 1] = 0x80 + UInt8(parts.count)
            return head + writer.bytes
        }
        func run(
            _ kind: UInt64, _ ranges: [Int64], _ values: [PropertyValue] = []
        ) -> (inout CBORWriter) -> Void {
            { writer in
                writer.beginArray(3 + values.count)
                writer.write(8 + kind)
                writer.write(UInt64(kind == 2 ? 1 : 0))
                writer.beginArray(ranges.count)
                for number in ranges { writer.write(number) }
                for value in values { writer.write(value) }
            }
        }
        #expect(try Transaction.decode(bytes([run(2, [5, 2])])).changes.count == 2)
        for ranges: [Int64] in [
            [], [5], [5, 1], [0, 2], [-1, 2], [5, 0], [5, 2, 0, 1], [5, 2, 1], [5, 2, 1, 0],
            [.max, 2], [5, 4_000_001], [5, 2, .max, 1], [5, .min], [.min, 2],
        ] {
            #expect(throws: DecodingFailure.self) {
                try Transaction.decode(bytes([run(2, ranges)]))
            }
        }
        for kind: UInt64 in [0, 3, 4, 5, 6] {
            #expect(throws: DecodingFailure.self) {
                try Transaction.decode(bytes([run(kind, [5, 2], [.null])]))
            }
        }
        for parts in [[run(2, [5, 2]), run(2, [9, 2])], []] {
            #expect(throws: DecodingFailure.self) { try Transaction.decode(bytes(parts)) }
        }
        #expect(throws: DecodingFailure.self) {
            try Transaction.decode(bytes([run(2, [5, 2])], format: 1))
        }
        #expect(
            try Transaction.decode(bytes([run(2, [5, 2]), run(2, [4, 2])])).changes.count == 4)
    }

    @Test("A large value in a long run is refused before anything is made of it")
    func largeRuns() throws {
        func bytes(_ rows: Int64) -> [UInt8] {
            let value = PropertyValue.string(String(repeating: "x", count: 200_000))
            var bytes = Self.ofRuns(Self.changes(.update, [5, 6], [value])).encoded()
            // The ranges are two bytes behind an array's head: the row 5, and how many.
            guard let place = bytes.firstRange(of: [0x82, 5, 2]) else { return [] }
            bytes.replaceSubrange(
                place, with: [0x82, 5, 0x19, UInt8(rows >> 8), UInt8(truncatingIfNeeded: rows)])
            return bytes
        }
        #expect(try ReceivedTransaction(checking: bytes(2_600)).plainSize > 520_000_000)
        #expect(throws: DecodingFailure.self) { try ReceivedTransaction(checking: bytes(2_700)) }
    }

    @Test("Any other format is refused", arguments: [0, 5, 23] as [UInt8])
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
