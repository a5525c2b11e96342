import Client
import Foundation
import Testing

@testable import Node

@Suite("The inspector's page")
struct InspectorPageTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Sources/CInspectorPage/page").standardized

    @Test("All files of its folder are in the program, as they are, and few enough")
    func embedded() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).sorted()
        #expect(InspectorPage.names == names)
        var total = 0
        for name in names {
            let bytes = [UInt8](try Data(contentsOf: Self.folder.appendingPathComponent(name)))
            guard case .whole(let served)? = InspectorPage.file(name)?.body else {
                Issue.record("\(name) is not whole")
                continue
            }
            #expect(served == bytes, "\(name) differs: build again")
            total += bytes.count
        }
        #expect(total > 0 && total <= 150_000)
    }

    @Test("It is served without a token, and lets nothing else in")
    func served() async throws {
        try await HTTPTestNode.run(options: .with { $0.token = "0123456789abcdef" }) { node in
            let stranger = try NodeClient(url: node.url)
            for path in ["/"] + InspectorPage.names.map({ "/inspector/\($0)" }) {
                let answer = try await stranger.request("GET", path)
                #expect(answer.status == 200, "\(path)")
                func field(_ name: String) -> String? {
                    answer.headers.first { $0.0.lowercased() == name }?.1
                }
                let policy = field("content-security-policy") ?? ""
                #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
                #expect(field("x-content-type-options") == "nosniff")
                // Who has it gets nothing more.
                let version = try #require(field("etag"))
                for (known, status) in [(version, 304), ("W/" + version, 304), ("\"x\"", 200)] {
                    let again = try await stranger.request(
                        "GET", path, headers: [("If-None-Match", known)])
                    #expect(again.status == status && again.body.isEmpty == (status == 304))
                }
            }
            #expect(try await node.ask("GET", "/inspector/nothing.js").status == 404)
            await stranger.close()
        }
    }

    @Test("It can be turned off")
    func off() async throws {
        try await HTTPTestNode.run(options: .with { $0.servesInspector = false }) {
            (node: HTTPTestNode) async throws in
            for path in ["/", "/inspector/app.js"] {
                #expect(try await node.ask("GET", path).status == 404)
            }
        }
    }
}
