import Coordinator
import Foundation
import GRDB
import Merge
import Testing

/// What is refused at opening, what is found afterwards, and what others may read.
@Suite struct StoreTests {
    private let node: EngineNode

    init() throws { node = try EngineNode() }

    private func openingFails(
        _ model: ManagedObjectModel? = nil, cluster: String = "test", node number: Int = 1
    ) throws -> CoordinatorError.Code? {
        let owner = try #require(NodeID(number))
        return try node.code {
            _ = try PersistentStoreCoordinator(
                storeAt: node.path, model: model ?? node.model, cluster: cluster, node: owner)
        }
    }

    @Test("A store that is open is not opened again; a closed one is")
    func inUse() throws {
        #expect(try openingFails() == .storeInUse)
        node.close()
        #expect(try openingFails() == nil)
    }

    @Test("A closed store takes no saves")
    func closed() throws {
        let coordinator = node.coordinator
        let request = SaveRequest(operations: [try node.insertion("Tag")])
        node.close()
        #expect(try node.code { _ = try coordinator.save(request) as SaveResult } == .notWritable)
    }

    @Test("Another owner, another model and another layout are refused, each by its name")
    func refusals() throws {
        try node.insert("Tag")
        node.close()
        #expect(try openingFails(cluster: "other") == .storeOwner)
        #expect(try openingFails(node: 2) == .storeOwner)
        #expect(try openingFails(try TestStore.standardModel()) == .modelMismatch)
        try node.tamper("PRAGMA user_version = 1; PRAGMA application_id = 5")
        #expect(try openingFails() == .storeLayout)
    }

    @Test("A store of any other layout is refused and not changed", arguments: [0, 1, 3, 77])
    func otherLayout(_ layout: Int) throws {
        try node.insert("Tag")
        node.close()
        try node.tamper("PRAGMA user_version = \(layout)")
        let before = FileManager.default.contents(atPath: node.path)
        let openings: [() throws -> Void] = [
            { try node.open() },
            { _ = try PersistentStoreCoordinator(readingStoreAt: node.path) },
            {
                _ = try PersistentStoreCoordinator.migration(
                    ofStoreAt: node.path, to: node.model, cluster: "test", node: node.node)
            },
            {
                _ = try StoreBackup.restore(
                    node.path, to: node.path + "-other", cluster: "test", node: node.node)
            },
        ]
        for (index, opening) in openings.enumerated() {
            let error = #expect(throws: CoordinatorError.self) { try opening() }
            #expect(error?.code == .storeLayout, "\(index)")
            #expect(error?.message.contains("store layout \(layout)") == true, "\(index)")
        }
        #expect(FileManager.default.contents(atPath: node.path) == before)
    }

    @Test("A file of another program is refused and not changed")
    func foreignFile() throws {
        node.close()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: node.path + suffix)
        }
        for sql in [
            "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
            "PRAGMA application_id = 7", "PRAGMA user_version = 7",
        ] {
            try? FileManager.default.removeItem(atPath: node.path)
            try node.tamper(sql)
            let before = FileManager.default.contents(atPath: node.path)
            #expect(try openingFails() == .storeLayout, "\(sql)")
            #expect(FileManager.default.contents(atPath: node.path) == before, "\(sql)")
        }
    }

    @Test("Garbage and a file cut short are refused as damaged")
    func garbage() throws {
        for number in 0..<200 { try node.insert("Tag", ["name": .string("\(number)")]) }
        node.close()
        let whole = try #require(FileManager.default.contents(atPath: node.path))
        try whole.prefix(whole.count / 2).write(to: URL(fileURLWithPath: node.path))
        #expect(try openingFails() == .storeDamaged)
        try Data(repeating: 0x5A, count: 8_192).write(to: URL(fileURLWithPath: node.path))
        #expect(try openingFails() == .storeDamaged)
    }

    // MARK: Verifying

    private func differences(after sql: String) throws -> [String] {
        node.close()
        try node.tamper(sql)
        try node.open()
        let report = try node.coordinator.verify()
        #expect(!report.isOK, "\(sql)")
        return report.differences
    }

    @Test("A bit flipped in a value is found and named")
    func flipped() throws {
        let tag = try node.insert("Tag", ["name": .string("abc")])
        #expect(try node.coordinator.verify().isOK)
        let found = try differences(after: "UPDATE Tag SET name = 'abb'")
        #expect(found.contains { $0.contains("Tag/\(tag.row).name") }, "\(found)")
    }

    @Test("A value where there was none, and a reference led astray, are found and named")
    func invented() throws {
        let folder = try node.insert("Folder")
        let other = try node.insert("Folder")
        let note = try node.insert("Note", ["folder": .reference(folder.row)])
        var found = try differences(after: "UPDATE Note SET p = 'x'")
        #expect(found.contains { $0.contains("Note/\(note.row).p") }, "\(found)")
        found = try differences(after: "UPDATE Note SET p = NULL, folder = \(other.row.rawValue)")
        #expect(found.contains { $0.contains("Note/\(note.row).folder") }, "\(found)")
    }

    @Test("A row that is gone, and one that nobody made, are found and named")
    func missing() throws {
        let tag = try node.insert("Tag")
        let found = try differences(after: "UPDATE Tag SET _id = _id + 1")
        #expect(found.contains { $0.contains("Tag/\(tag.row)") }, "\(found)")
        let stranger = RowID(tag.row.rawValue + 1)
        #expect(found.contains { $0.contains("Tag/\(stranger)") }, "\(found)")
    }

    @Test("A link shown that is none, and damage in the log, are found")
    func linksAndLog() throws {
        let tag = try node.insert("Tag")
        _ = try node.insert("Note", [:], [.add(tag.row, to: "tags")])
        var found = try differences(after: #"UPDATE "Note.tags" SET _alive = 0"#)
        #expect(found.contains { $0.contains("Note.tags") }, "\(found)")
        found = try differences(
            after: #"UPDATE "Note.tags" SET _alive = 1; "#
                + "UPDATE _transaction SET bytes = zeroblob(9) WHERE position = 1")
        #expect(found.contains { $0.contains("ransaction 1") }, "\(found)")
    }

    @Test("A tombstone and an entry of the journal that cannot be read are found and named")
    func hidden() throws {
        let tag = try node.insert("Tag", ["name": .string("a")])
        let version = try node.version(tag)
        try node.update(tag, ["name": .string("b")])
        try node.update(tag, ["name": .string("c")], version: version, policy: .rollback)
        try node.delete(tag)
        #expect(try node.coordinator.verify().isOK)
        let found = try differences(
            after: "UPDATE _tombstone SET registers = zeroblob(3); "
                + "UPDATE _conflict SET record = zeroblob(3)")
        #expect(found.contains { $0.hasPrefix("the tombstone of \(tag.row)") }, "\(found)")
        #expect(found.contains { $0.contains("Tag.\(tag.row).save") }, "\(found)")
    }

    // MARK: Reading only

    @Test("A store can be read while it is open and after, and not written")
    func reading() throws {
        let tag = try node.insert("Tag", ["name": .string("a")])
        func read() throws -> (RowSnapshot?, ProjectionDigest) {
            let reader = try PersistentStoreCoordinator(readingStoreAt: node.path)
            let entity = try #require(reader.model.entity(named: "Tag"))
            #expect(reader.node == node.node && reader.cluster == "test")
            let request = SaveRequest(operations: [try node.insertion("Tag")])
            #expect(try node.code { _ = try reader.save(request) as SaveResult } == .notWritable)
            #expect(try reader.verify().isOK)
            return (try reader.read { try $0.row(entity, tag.row) }, try reader.currentDigest)
        }
        let digest = try node.coordinator.currentDigest
        let during = try read()
        #expect(during.0?.values.contains(.string("a")) == true && during.1 == digest)
        node.close()
        let after = try read()
        #expect(after.0 == during.0 && after.1 == digest)
        #expect(
            try node.code {
                _ = try PersistentStoreCoordinator(readingStoreAt: node.path + "-none")
            } == .inputOutput)
    }

    @Test("A generation pinned in a file stays as it was while somebody else writes")
    func pinnedFile() throws {
        try node.insert("Tag", ["name": .string("a")])
        let reader = try PersistentStoreCoordinator(readingStoreAt: node.path)
        let pin = try reader.pinCurrentGeneration()
        try node.insert("Tag", ["name": .string("b")])
        let request = FetchRequest("Tag")
        #expect(try reader.read(pin) { try $0.count(request) } == 1)
        #expect(try reader.read { try $0.count(request) } == 2)
        #expect(try reader.pin(pin.token) === pin)
        #expect(try reader.pinCurrentGeneration().token == node.coordinator.currentToken)
        #expect(reader.pinStatus.count == 1)
    }

    @Test("Nobody waits for a file to come to hold what it lacks")
    func waitingForFile() async throws {
        let other = try EngineNode(node.model, node: 2)
        try other.insert("Tag", ["name": .string("x")])
        let reader = try PersistentStoreCoordinator(readingStoreAt: node.path)
        let begin = ContinuousClock.now
        try await reader.waitUntilCovered(
            node.coordinator.currentToken.versionVector, timeout: .seconds(600))
        let error = await #expect(throws: CoordinatorError.self) {
            try await reader.waitUntilCovered(
                other.coordinator.currentToken.versionVector, timeout: .seconds(600))
        }
        #expect(error?.code == .generationTimeout)
        #expect(ContinuousClock.now - begin < .seconds(60))
    }

    // MARK: What comes from elsewhere

    @Test("A transaction that lies about its author or its types is refused, and leaves no trace")
    func hostile() throws {
        let other = try EngineNode(node.model, node: 2)
        try other.insert("Tag", ["name": .string("x")])
        let honest = try #require(other.transactions.first)
        let digest = try node.coordinator.currentDigest

        var forged = honest.transaction
        forged.dot = Dot(actor: try #require(node.coordinator.actor), sequence: 1)
        var wrong = honest.transaction
        wrong.changes[0].values[0] = .integer(3)
        for transaction in [forged, wrong] {
            let result = try node.coordinator.apply([EncodedTransaction(transaction)])
            #expect(result.rejected.map(\.dot) == [transaction.dot])
            #expect(try node.coordinator.currentDigest == digest)
        }
        let result = try node.coordinator.apply([honest])
        #expect(result.rejected.isEmpty)
        // Again, it is not ready; and an identity cannot be inserted twice.
        #expect(try node.coordinator.apply([honest]).rejected.count == 1)
        var again = honest.transaction
        again.dot = Dot(actor: honest.dot.actor, sequence: 2)
        again.seen.advance(to: honest.dot)
        #expect(try node.coordinator.apply([EncodedTransaction(again)]).rejected.count == 1)
        try node.insert("Tag")
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("A transaction that takes an object for one of another entity is refused")
    func otherEntity() throws {
        let other = try EngineNode(node.model, node: 2)
        let id = try other.insert("Animal", ["name": .string("x")])
        try exchange(node, other)
        try other.update(id, ["name": .string("y")])
        let honest = try #require(other.transactions.last)
        for kind in [Change.Kind.update, .revival, .delete] {
            var forged = honest.transaction
            forged.changes[0].kind = kind
            forged.shapes[0].entity = "Dog"
            let result = try node.coordinator.apply([EncodedTransaction(forged)])
            #expect(
                result.rejected.map(\.reason)
                    == ["It changes an object of another entity than it names."])
        }
        #expect(try node.coordinator.apply([honest]).rejected.isEmpty)
        try exchange(node, other)
    }
}
