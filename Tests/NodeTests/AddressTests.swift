import Merge
import Testing

@testable import Node

@Suite("Addresses") struct AddressTests {
    @Test(
        "host:port is read in all its forms",
        arguments: [
            ("127.0.0.1:7100", "127.0.0.1", 7100), ("[::1]:80", "::1", 80),
            ("node-1.example:0", "node-1.example", 0), ("*:65535", "*", 65535),
            ("3_a.example:1", "3_a.example", 1),
        ])
    func good(_ text: String, _ host: String, _ port: Int) throws {
        let address = try #require(HostAddress(text))
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.description == text)
    }

    @Test(
        "What is not host:port is refused",
        arguments: [
            "", ":", ":80", "a", "a:", "a:65536", "a:-1", "a:+1", "::1:80", "[::1]", "[x]:1",
            "a b:1", "a/b:1", "a;b:1", "a:1 ", "[]:1", "a:000001",
            "_mesh.example:1", "-x:1", ".a:1",
        ])
    func bad(_ text: String) {
        #expect(HostAddress(text) == nil)
        #expect(MeshEndpoint("tcp://\(text)") == nil)
    }

    @Test("Only 127/8, ::1 and localhost are loopback")
    func loopback() throws {
        for text in ["127.0.0.1:1", "127.255.0.3:1", "[::1]:1", "localhost:1"] {
            #expect(try #require(HostAddress(text)).isLoopback)
        }
        for text in ["127.0.0.1.example:1", "0.0.0.0:1", "*:1", "127.1:1", "[::]:1", "10.0.0.1:1"] {
            #expect(try !#require(HostAddress(text)).isLoopback)
        }
    }

    @Test("A source address goes before the peer's")
    func source() throws {
        let endpoint = try #require(MeshEndpoint("tcp://127.0.0.1:7202"))
        #expect(endpoint.connectable(from: "127.0.0.11") == "tcp://127.0.0.11:0;127.0.0.1:7202")
        #expect(endpoint.connectable(from: nil) == "tcp://127.0.0.1:7202")
    }

    @Test("A dealer's name gives its node, and what is no such name gives none")
    func identities() throws {
        let node = try #require(NodeID(3))
        #expect(RouteTable.node(ofIdentity: Array(RouteTable.identity(of: node).utf8)) == node)
        for text in [
            "", "node-3", "node-0-0123456789abcdef", "node-03-0123456789abcdef",
            "node-32768-0123456789abcdef", "node-99999999999999999999-0123456789abcdef",
            "node-3-0123456789abcde", "nodes-3-0123456789abcdef",
        ] {
            #expect(RouteTable.node(ofIdentity: Array(text.utf8)) == nil)
        }
    }
}
