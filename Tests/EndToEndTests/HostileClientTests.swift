import Foundation
import Testing

extension EndToEnd {
    @Suite("Against strangers on the HTTP interface")
    struct HostileClientTests {}
}

extension EndToEnd.HostileClientTests {
    @Test("What comes behind an upgrade that is not made is not kept")
    func upgrade() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let node = cluster.node(1)
            let before = node.residentBytes
            let stranger = try RawConnection(port: node.httpPort)
            let head =
                "GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n"
                + "Upgrade: x\r\n\r\n"
            try stranger.send([UInt8](head.utf8))
            let part = [UInt8](repeating: 0x78, count: 1 << 20)
            // The feed is answered all the while; once it is not, the connection ends.
            for _ in 0..<200 {
                guard (try? stranger.send(part)) != nil else { break }
            }
            #expect(node.residentBytes - before < 64 << 20)
            #expect(try await node.status().text("actor") != "")
            withExtendedLifetime(stranger) {}
        }
    }
}
