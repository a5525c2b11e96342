import Coordinator
import Foundation
import Merge
import TestSupport
import Testing

@testable import Node

@Suite("A node that is only checked")
struct NodeCheckTests {
    private let directory: URL
    private let configuration: NodeConfiguration

    init() throws {
        directory = try URL.makeTemporaryFolder()
        configuration = NodeConfiguration(
            cluster: "demo", node: try #require(NodeID(1)),
            store: directory.appending(path: "s").path,
            model: directory.appending(path: "model.json").path)
        try write(Self.model())
    }

    private static func model(_ more: String = "", type: String = "string") -> String {
        #"{"entities": [{"name": "Person", "attributes": [{"name": "name", "type": "\#(type)"}\#(more)]}]}"#
    }

    private func write(_ model: String) throws {
        try Data(model.utf8).write(to: URL(fileURLWithPath: configuration.model))
    }

    private func check(_ configuration: NodeConfiguration) throws -> String? {
        try NodeProcess(configuration).check()
    }

    private func opened() throws -> PersistentStoreCoordinator {
        try PersistentStoreCoordinator(
            storeAt: configuration.store, model: try NodeProcess.readModel(configuration.model),
            cluster: "demo", node: configuration.node)
    }

    @Test(
        "A check reports what a start would migrate, and refuses what it would, on an open store"
    )
    func migrations() throws {
        defer { try? FileManager.default.removeItem(at: directory) }
        #expect(try check(configuration) == nil)
        #expect(!FileManager.default.fileExists(atPath: configuration.store))
        let store = try opened()
        defer { store.close() }
        #expect(try check(configuration) == nil)
        try write(Self.model(#", {"name": "age", "type": "integer64"}"#))
        #expect(try check(configuration)?.contains("Person.age") == true)
        try write(Self.model(type: "integer64"))
        #expect { try check(configuration) } throws: { error in
            let error = error as? CoordinatorError
            return error?.code == .mappingNotInferable && error.map(NodeProcess.exitCode) == 8
                && error?.message.contains("Person.name") == true
        }
        try write(Self.model())
        #expect(try check(configuration) == nil)
    }

    @Test("A store that a start would not take is refused as there, and left as it was")
    func stores() throws {
        defer { try? FileManager.default.removeItem(at: directory) }
        try opened().close()
        var other = configuration
        other.node = try #require(NodeID(2))
        #expect { try check(other) } throws: { ($0 as? CoordinatorError)?.code == .storeOwner }
        let store = URL(fileURLWithPath: configuration.store)
        let bytes = try Data(contentsOf: store)
        let log = URL(fileURLWithPath: configuration.store + "-wal")
        try FileManager.default.removeItem(at: store)
        try Data(bytes).write(to: log)
        #expect { try check(configuration) } throws: {
            ($0 as? CoordinatorError)?.code == .storeIncomplete
        }
        #expect(try Data(contentsOf: log) == bytes)
        try FileManager.default.removeItem(at: log)
        try Data().write(to: store)
        #expect(try check(configuration) == nil)
        try Data(repeating: 7, count: 4_096).write(to: store)
        #expect { try check(configuration) } throws: {
            ($0 as? CoordinatorError)?.code == .storeDamaged
        }
    }
}
