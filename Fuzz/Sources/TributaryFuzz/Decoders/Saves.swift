@testable import Coordinator
@testable import Merge
@testable import Node

extension Decoder {
    /// A save as a client sends it, carried out and rolled back.
    static let save = Decoder(
        name: "save", maximumLength: 4096,
        seeds: { _ in SaveSamples.texts.map { Array($0.utf8) } },
        run: { bytes in
            guard
                let json = attempt(throwing: JSONError.self, { try JSONParser.parse(bytes) }),
                let request = request(json)
            else { return }
            EngineWorld.shared.change { engine in
                attempt(throwing: CoordinatorError.self, where: { $0.isRefusalOfSave }) {
                    try engine.save(request)
                }?.transaction != nil
            }
        })

    private static func request(_ json: JSONValue) -> SaveRequest? {
        do {
            return try SaveRequestReader.read(
                json, model: SampleModel.model, cluster: SampleModel.cluster
            ).request
        } catch is HTTPError {
            return nil
        } catch is CoordinatorError {
            return nil
        } catch { fatalError("FINDING: an error that callers do not expect: \(error)") }
    }

    /// Transactions of other nodes, applied and rolled back.
    ///
    /// Input: transactions as parts, each after a byte that says who wrote it and what it had
    /// seen. Dots, vectors and the model's hash are put right, for no mutation would find them.
    static let apply = Decoder(
        name: "apply", maximumLength: 4096,
        seeds: { random in
            let world = EngineWorld.shared
            let samples = SaveSamples.transactions(world.rows)
            return (0..<40).map { _ in
                (0..<1 + random.below(3)).flatMap { _ in
                    [UInt8(random.below(256))]
                        + InputReader.part(random.pick(samples).encoded())
                }
            }
        },
        run: { bytes in
            var reader = InputReader(bytes)
            EngineWorld.shared.change { engine in
                let base = engine.state.versionVector
                var changed = false
                var count = 0
                while !reader.isAtEnd, count < 8 {
                    count += 1
                    let choice = reader.byte()
                    let part = reader.part()
                    guard
                        var transaction = attempt(
                            throwing: DecodingFailure.self, { try Transaction.decode(part) })
                    else { continue }
                    let actor = SampleRows.strangers[Int(choice) % SampleRows.strangers.count]
                    let known = engine.state.versionVector
                    transaction.dot = Dot(actor: actor, sequence: known[actor] + 1)
                    var seen = choice & 0x80 == 0 ? base : known
                    if choice & 0x40 != 0 { seen = VersionVector() }
                    seen.advance(actor, to: known[actor])
                    transaction.seen = seen
                    transaction.modelHash = engine.model.modelHash
                    let applied: Void? = attempt(throwing: ApplyRejection.self) {
                        try engine.apply(EncodedTransaction(transaction))
                    }
                    if applied != nil { changed = true }
                }
                return changed
            }
        })
}

extension CoordinatorError {
    /// Whether a save may be refused with it: neither the store nor its disk is at fault.
    var isRefusalOfSave: Bool {
        let unexpected: [Code] = [.storeDamaged, .inputOutput, .outcomeUnknown, .storeInUse]
        return !unexpected.contains(code)
    }
}

/// Saves and transactions that fit the sample rows.
enum SaveSamples {
    static var texts: [String] {
        let world = EngineWorld.shared
        let person = world.uri(1, "Person")
        let other = world.uri(2, "Person")
        let contested = world.uri(3, "Person")
        let group = world.uri(21, "Group")
        let note = world.uri(33, "Note")
        let key = world.uri(35, "Key")
        let actor = SampleRows.strangers[0]
        return [
            "{\"operations\":[]}",
            "{\"operations\":[{\"insert\":\"Person\",\"id\":\"@p\",\"values\":{\"name\":\"Eve\","
                + "\"age\":3,\"weight\":1.5,\"balance\":\"2.50\",\"isMember\":true,"
                + "\"born\":\"2026-01-31T12:00:00Z\",\"photo\":\"YQ==\",\"manager\":\"\(person)\"}},"
                + "{\"insert\":\"Animal\",\"values\":{\"owner\":\"@p\"}}],\"author\":\"a\","
                + "\"context\":\"c\",\"saveID\":\"s-1\",\"acknowledgement\":\"majority\","
                + "\"timeoutSeconds\":1}",
            "{\"operations\":[{\"update\":\"\(person)\",\"values\":{\"name\":null},"
                + "\"add\":{\"groups\":[\"\(group)\"]},\"remove\":{\"pets\":[]}}]}",
            "{\"operations\":[{\"delete\":\"\(person)\"}],\"mergePolicy\":\"overwrite\"}",
            "{\"operations\":[{\"delete\":\"\(other)\"}]}",
            "{\"operations\":[{\"update\":\"\(contested)\",\"values\":{\"name\":\"x\"},"
                + "\"resolves\":true}],\"mergePolicy\":\"mergeByPropertyObjectTrump\"}",
            "{\"operations\":[{\"update\":\"\(contested)\",\"values\":{\"name\":\"x\"},"
                + "\"version\":\"\(actor)-1\"}],\"mergePolicy\":\"rollback\"}",
            "{\"operations\":[{\"update\":\"\(note)\",\"values\":{\"text\":\"y\",\"next\":null}},"
                + "{\"delete\":\"\(note)\"}]}",
            "{\"operations\":[{\"insert\":\"Note\",\"id\":\"@a\",\"values\":{\"previous\":\"@b\"}},"
                + "{\"insert\":\"Note\",\"id\":\"@b\",\"values\":{\"previous\":\"@a\"}}]}",
            "{\"operations\":[{\"insert\":\"Key\",\"values\":{\"word\":\"k\",\"number\":2}},"
                + "{\"delete\":\"\(key)\"}]}",
            "{\"operations\":[{\"insert\":\"Key\",\"values\":{\"word\":\"l\",\"number\":2}},"
                + "{\"insert\":\"Key\",\"values\":{\"word\":\"l\"}}]}",
            "{\"operations\":[{\"update\":\"\(group)\",\"values\":{\"members\":[\"\(person)\","
                + "\"\(other)\",\"\(contested)\"]}}]}",
            "{\"operations\":[{\"insert\":\"Debt\",\"values\":{\"sum\":499,\"debtor\":\"\(other)\"}},"
                + "{\"insert\":\"Desk\",\"values\":{\"user\":\"\(person)\"}}],\"acknowledgement\":2}",
            "{\"operations\":[{\"insert\":\"Employee\",\"id\":\"@e\",\"values\":{\"title\":\"t\","
                + "\"desk\":null,\"reports\":[\"\(person)\"]}},{\"update\":\"@e\","
                + "\"values\":{\"manager\":\"@e\"}}]}",
            "{\"operations\":[{\"update\":\"\(person)\",\"values\":{\"name\":\"x\"},"
                + "\"version\":\"\(actor)-18446744073709551615\"}]}",
            "{\"operations\":[{\"update\":\"\(person)\",\"increment\":{\"age\":1,\"weight\":0.5,"
                + "\"balance\":\"-0.5\"},\"if\":\"ANY pets.age != $a OR manager.name == name\","
                + "\"substitutions\":{\"a\":1}},{\"delete\":\"\(note)\",\"if\":\"size > 0\"}]}",
        ]
    }

    static func transactions(_ rows: [Int: RowID]) -> [Transaction] {
        func row(_ number: Int) -> RowID { rows[number] ?? RowID(1) }
        var result = SampleRows.foreign(rows, seen: VersionVector())
        func add(_ shapes: [ChangeShape], _ changes: [Change]) {
            var transaction = result[0]
            transaction.shapes = shapes
            transaction.changes = changes
            result.append(transaction)
        }
        let fresh = RowID(2 << 48 | 1)
        let another = RowID(2 << 48 | 2)
        let name = ChangeShape(entity: "Person", assigned: ["name", "manager"])
        add([name], [.init(kind: .insert, shape: 0, row: fresh, values: [.string("n"), .null])])
        add(
            [name, ChangeShape(entity: "Animal", assigned: ["owner"])],
            [
                .init(
                    kind: .insert, shape: 0, row: fresh,
                    values: [.string("n"), .reference(another)]),
                .init(kind: .insert, shape: 0, row: another, values: [.null, .reference(fresh)]),
                .init(kind: .insert, shape: 1, row: RowID(9), values: [.reference(fresh)]),
            ])
        let empty = ChangeShape(entity: "Person", assigned: [])
        add([empty], [.init(kind: .delete, shape: 0, row: row(1))])
        add([empty], [.init(kind: .delete, shape: 0, row: row(4))])
        add([empty], [.init(kind: .insert, shape: 0, row: row(4))])
        add(
            [name],
            [.init(kind: .update, shape: 0, row: row(5), values: [.null, .reference(row(5))])])
        add(
            [ChangeShape(entity: "Person", assigned: [], carried: ["name"])],
            [.init(kind: .revival, shape: 0, row: row(5), values: [.string("back")])])
        add(
            [ChangeShape(entity: "Desk", assigned: ["user"])],
            [.init(kind: .insert, shape: 0, row: fresh, values: [.reference(row(4))])])
        add(
            [ChangeShape(entity: "Group.members", assigned: [])],
            [
                .init(kind: .link, shape: 0, row: row(21), target: row(5)),
                .init(kind: .unlink, shape: 0, row: row(22), target: row(1)),
            ])
        let note = ChangeShape(entity: "Note", assigned: ["text"], carried: ["previous", "size"])
        add(
            [note],
            [
                .init(
                    kind: .update, shape: 0, row: row(33),
                    values: [.string("z"), .null, .integer(1)])
            ])
        add([note], [.init(kind: .delete, shape: 0, row: row(33), values: [.null, .null, .null])])
        add(
            [ChangeShape(entity: "Key", assigned: ["word", "number"])],
            [.init(kind: .insert, shape: 0, row: fresh, values: [.string("k"), .integer(1)])])
        return result
    }
}
