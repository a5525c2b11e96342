import Foundation
import Merge
import Testing

@testable import Node

@Suite("The place of a store") struct StorePathTests {
    private static func configuration(store: String) throws -> NodeConfiguration {
        NodeConfiguration(
            cluster: "demo", node: try #require(NodeID(1)), store: store, model: "model.json")
    }

    @Test("A path of a single character is a path like any other")
    func single() throws {
        try Self.configuration(store: "s").prepareStore()
        try Self.configuration(store: "/s").prepareStore()
        for folder in [".", "/"] {
            #expect { try Self.configuration(store: folder).prepareStore() } throws: {
                ($0 as? NodeError)?.message == "store: \(folder) is no regular file"
            }
        }
    }

    @Test("A place where no store can be is refused before anything is made there")
    func places() throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "store-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Self.configuration(store: "\(folder)/a/b/s").checkStore()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
        try Data().write(to: URL(fileURLWithPath: "\(folder)/file"))
        for store in ["\(folder)/file/s", "\(folder)/file/a/s", folder] {
            #expect(throws: NodeError.self) {
                try Self.configuration(store: store).checkStore()
            }
        }
        try Self.configuration(store: "\(folder)/file").checkStore()
    }

    @Test("The folders on the way to the store are made")
    func folders() throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "store-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try Self.configuration(store: "\(folder.path)/a//b/s").prepareStore()
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/a") == ["b"])
    }
}
