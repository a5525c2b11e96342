import Client
import Coordinator
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("HTTPS") struct TLSTests {
    private static func with(
        _ given: HTTPServer.Options = HTTPServer.Options(),
        _ body: (HTTPTestNode, URL) async throws -> Void
    ) async throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        var options = given
        options.identity = try identity(
            TestCertificates.certificate, TestCertificates.key, in: folder)
        try await HTTPTestNode.run(options: options) { try await body($0, folder) }
    }

    private static func identity(
        _ certificate: String, _ key: String, in folder: URL
    ) throws -> TLSIdentity {
        try TLSIdentity(
            certificateFile: TestCertificates.write(certificate, "c.pem", in: folder, mode: 0o644),
            keyFile: TestCertificates.write(key, "k.pem", in: folder))
    }

    private static func code(
        _ url: String, trust: TLSTrust = .system
    ) async throws -> ClientError.Code? {
        await code(try NodeClient(url: url, trust: trust))
    }

    private static func code(_ client: NodeClient) async -> ClientError.Code? {
        do {
            _ = try await client.request("GET", "/v1/status")
            return nil
        } catch { return (error as? ClientError)?.code }
    }

    @Test("A client that trusts the root gets answers and streams, by address and by name")
    func trusted() async throws {
        try await Self.with { node, folder in
            let root = try TestCertificates.write(TestCertificates.root, "root.pem", in: folder)
            for host in ["127.0.0.1", "localhost"] {
                let client = try NodeClient(
                    url: "https://\(host):\(node.server.port)", trust: .file(root))
                let saved = try await client.request(
                    "POST", "/v1/save",
                    body: Array(#"{"operations": [{"insert": "Note", "id": "@n"}]}"#.utf8))
                #expect(saved.status == 200)
                let stream = try await client.stream(
                    "POST", "/v1/fetch", body: Array(#"{"entity": "Note"}"#.utf8),
                    headers: [("Accept", "application/x-ndjson")])
                var lines: [String] = []
                for try await line in stream { lines.append(line) }
                #expect(lines.last?.contains(#""end":true"#) == true)
                await client.close()
            }
        }
    }

    @Test("Neither another root, nor another name, nor clear text gets an answer")
    func untrusted() async throws {
        try await Self.with { node, folder in
            let port = node.server.port
            let root = try TestCertificates.write(TestCertificates.root, "root.pem", in: folder)
            let other = try TestCertificates.write(
                TestCertificates.otherRoot, "other.pem", in: folder)
            let url = "https://127.0.0.1:\(port)"
            #expect(try await Self.code(url, trust: .file(other)) == .notTrusted)
            #expect(try await Self.code(url) == .notTrusted)
            let clear = try NodeClient(url: "http://127.0.0.1:\(port)")
            #expect(await Self.code(clear) == .connectionReset)
            node.server.update(
                identity: try Self.identity(
                    TestCertificates.foreignCertificate, TestCertificates.foreignKey, in: folder))
            #expect(try await Self.code(url, trust: .file(root)) == .notTrusted)
            // The other way round: a node in clear is none to a client that wants TLS.
            try await HTTPTestNode.run { open in
                let client = try NodeClient(
                    url: "https://127.0.0.1:\(open.server.port)", trust: .file(root))
                #expect(await Self.code(client) != nil)
            }
        }
    }

    @Test("A new certificate is shown from the next connection on, and open ones go on")
    func changed() async throws {
        try await Self.with { node, folder in
            let root = try TestCertificates.write(TestCertificates.root, "root.pem", in: folder)
            let url = "https://localhost:\(node.server.port)"
            let open = try NodeClient(url: url, trust: .file(root))
            #expect(await Self.code(open) == nil)
            node.server.update(
                identity: try Self.identity(
                    TestCertificates.foreignCertificate, TestCertificates.foreignKey, in: folder))
            #expect(await Self.code(open) == nil)
            #expect(try await Self.code(url, trust: .file(root)) == .notTrusted)
            node.server.update(
                identity: try Self.identity(
                    TestCertificates.nextCertificate, TestCertificates.nextKey, in: folder))
            #expect(try await Self.code(url, trust: .file(root)) == nil)
        }
    }

    @Test("Files that are missing, readable by others, no PEM or no pair are refused by name")
    func files() throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let certificate = try TestCertificates.write(
            TestCertificates.certificate, "c.pem", in: folder, mode: 0o644)
        let key = try TestCertificates.write(TestCertificates.key, "k.pem", in: folder)
        let open = try TestCertificates.write(
            TestCertificates.key, "open.pem", in: folder, mode: 0o644)
        let other = try TestCertificates.write(TestCertificates.nextKey, "other.pem", in: folder)
        let text = try TestCertificates.write("no PEM", "text.pem", in: folder)
        _ = try TLSIdentity(certificateFile: certificate, keyFile: key)
        for (first, second, named) in [
            (folder.path + "/none.pem", key, "none.pem"), (certificate, folder.path + "/no", "/no"),
            (certificate, open, "chmod 600"), (certificate, other, "other.pem"),
            (text, key, "text.pem"), (certificate, text, "text.pem"),
        ] {
            #expect {
                try TLSIdentity(certificateFile: first, keyFile: second)
            } throws: {
                let message = ($0 as? NodeError)?.message ?? ""
                return message.contains(named) && !message.contains("PRIVATE")
            }
        }
        #expect(throws: ClientError.self) {
            try NodeClient(url: "https://a", trust: .file(folder.path + "/none.pem"))
        }
        #expect(throws: ClientError.self) { try NodeClient(url: "https://a", trust: .file(text)) }
    }

    @Test("Connections that never begin TLS, or never end it, keep nobody out")
    func silentOnes() async throws {
        var options = HTTPServer.Options()
        options.maximumConnections = 4
        options.headerTimeout = .seconds(300)
        try await Self.with(options) { node, folder in
            let root = try TestCertificates.write(TestCertificates.root, "root.pem", in: folder)
            let url = "https://127.0.0.1:\(node.server.port)"
            // More than there may be beside the others while they are being closed.
            var silent: [RawConnection] = []
            for _ in 0..<200 { silent.append(try RawConnection(port: node.server.port)) }
            try await eventually("all are taken in, and all but four ended") {
                node.backend.connectionNotes.withLock { notes in
                    notes.count { if case .ended(.room) = $0 { true } else { false } } == 196
                }
            }
            let client = try NodeClient(url: url, trust: .file(root))
            #expect(try await client.request("GET", "/v1/status").status == 200)
            await client.close()
        }
    }

    @Test("A handshake that does not end is ended in a request's time")
    func handshakes() async throws {
        try await Self.with(.with { $0.headerTimeout = .milliseconds(200) }) { node, _ in
            let silent = try RawConnection(port: node.server.port)
            let half = try RawConnection(port: node.server.port)
            half.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
            #expect(await silent.rest() == "")
            #expect(silent.isClosed)
            _ = await half.rest()
            #expect(half.isClosed)
        }
    }
}
