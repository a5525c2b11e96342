import Client
import Coordinator
import Foundation
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("A store that a read finds damaged")
struct DamagedStoreTests {
    private static let text = "this is what the disk has changed"

    /// Makes node 1's store, with notes in it, and changes their text wherever the file has it: in
    /// their rows, and in the log, where checksums do not fit any more.
    ///
    /// - Returns: the store's path.
    private static func damagedStore(_ cluster: TestCluster) async throws -> String {
        let coordinator = try await cluster.open(1)
        let entity = try #require(coordinator.model.entity(named: "Note"))
        let position = try #require(entity.position(of: "text"))
        for _ in 0..<3 {
            _ = try await coordinator.save(NodeService.insertion(entity, position, text))
        }
        coordinator.close()
        let file = URL(fileURLWithPath: coordinator.storePath)
        var bytes = [UInt8](try Data(contentsOf: file))
        let wanted = Array(text.utf8)
        var count = 0
        for index in 0...(bytes.count - wanted.count)
        where bytes[index] == wanted[0]
            && bytes[index..<index + wanted.count].elementsEqual(wanted)
        {
            bytes[index] ^= 1
            count += 1
        }
        try #require(count >= 6)
        try Data(bytes).write(to: file)
        return file.path
    }

    @Test("A request that meets it is answered and logged, and the process ends with 5")
    func request() async throws {
        let cluster = try TestCluster(1)
        let store = try await Self.damagedStore(cluster)
        let model = cluster.directory.appendingPathComponent("model.json")
        try Data(JSONWriter.bytes(of: TestCluster.model().jsonValue())).write(to: model)
        var configuration = NodeConfiguration(
            cluster: "test", node: cluster.peers[0].node, store: store, model: model.path)
        configuration.http.listen = HostAddress(host: "127.0.0.1", port: 0)
        let lines = LogLines()
        let url = Mutex<String?>(nil)
        var process = NodeProcess(configuration)
        process.logger = lines.logger
        process.announce = { line in
            let last = line.split(separator: " ").last.map(String.init)
            url.withLock { $0 = last }
        }
        let running = Task { [process] in try await process.runUntilShutdown() }
        try await eventually("it listens") { url.withLock { $0 } != nil }
        let address = url.withLock { $0 }
        let client = try NodeClient(url: try #require(address))
        // The client gets the error, and so do those who watch the node, which goes on.
        let verification = try await client.request("POST", "/v1/verify")
        #expect(verification.status == 200)
        #expect(String(decoding: verification.body, as: UTF8.self).contains(#""sound":false"#))
        #expect(lines.all.count { $0.hasPrefix("critical What was read of the store") } == 1)
        let answer = try await client.request("GET", "/v1/history?limit=7")
        #expect(answer.status == 500)
        let body = String(decoding: answer.body, as: UTF8.self)
        #expect(body.contains(#""code":"storeDamaged""#), "\(body)")
        await client.close()
        try await eventually("it ends") {
            lines.all.contains { $0.hasPrefix("critical The node cannot go on") }
        }
        let error = await #expect(throws: CoordinatorError.self) { try await running.value }
        #expect(error?.code == .storeDamaged)
        let code = error.map { NodeProcess.exitCode(of: $0) }
        #expect(code == 5)
        let failures = lines.all.filter { $0.contains("A request has failed") }
        #expect(failures.count == 1, "\(lines.all)")
        for part in ["GET", "/v1/history", "storeDamaged"] {
            #expect(failures.first?.contains(part) == true, "\(part)")
        }
        #expect(failures.first?.contains("limit") == false)
    }

    @Test("A peer that asks for what is damaged ends the node that cannot give it")
    func peer() async throws {
        let cluster = try TestCluster(2)
        _ = try await Self.damagedStore(cluster)
        let nodes = [try await cluster.start(1), try await cluster.start(2)]
        try await eventually("it has ended") { !nodes[0].isReady }
        let error = await #expect(throws: CoordinatorError.self) {
            try await nodes[0].waitUntilEnded()
        }
        #expect(error?.code == .storeDamaged)
        #expect(nodes[1].isReady)
        for node in nodes { await node.stop() }
    }

    @Test("What is no proof against the store is an alarm, and the node goes on")
    func doubt() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        node.noteFailure(
            RequestFailure(
                method: "POST", path: "/v1/backup", code: "storeDamaged", message: "It is."))
        node.noteFailure(
            RequestFailure(method: "GET", path: "/v1/x", code: "inputOutput", message: "It is."))
        #expect(node.counters.values.lastAlarms.map(\.name) == ["damageSuspected"])
        try await node.insertNotes(1)
        #expect(node.isReady)
        await node.stop()
    }

    @Test("A store that is removed under its node refuses saves with an alarm until it is back")
    func removed() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        try await node.insertNotes(2)
        let store = node.coordinator.storePath
        let manager = FileManager.default
        for path in [store, store + "-wal"] {
            try manager.moveItem(atPath: path, toPath: path + "-gone")
            try await eventually("saves are refused") {
                try node.coordinator.savingRefusal?.code == .storeRemoved
            }
            // Another file of its name is not the store.
            try Data().write(to: URL(fileURLWithPath: path))
            node.coordinator.maintain()
            let error = await #expect(throws: CoordinatorError.self) {
                try await node.insertNotes(1)
            }
            #expect(error?.code == .storeRemoved)
            #expect(error?.message.contains(store) == true)
            // The person who removed it can have it back.
            let backup = cluster.directory.appendingPathComponent(UUID().uuidString).path
            _ = try node.coordinator.backUp(to: backup)
            let saved = try PersistentStoreCoordinator(readingStoreAt: backup)
            #expect(try saved.currentToken == node.coordinator.currentToken)
            try manager.removeItem(atPath: path)
            try manager.moveItem(atPath: path + "-gone", toPath: path)
            try await eventually("saves are taken") {
                try node.coordinator.savingRefusal == nil
            }
            try await node.insertNotes(1)
        }
        let alarms = node.counters.values.lastAlarms
        #expect(alarms.map(\.name) == ["storeRemoved"] && alarms.first?.count == 2)
        await node.stop()
    }

    @Test("So many failures are logged in a second, and of the others the count")
    func floods() {
        var watch = FailureWatch()
        var answers: [Int?] = []
        for _ in 0..<FailureWatch.linesInASecond + 5 { answers.append(watch.note(now: 10_000)) }
        #expect(answers.count { $0 != nil } == FailureWatch.linesInASecond)
        #expect(answers.last == .some(nil))
        let next = [watch.note(now: 11_000), watch.note(now: 11_001)]
        #expect(next == [5, 0])
    }
}
