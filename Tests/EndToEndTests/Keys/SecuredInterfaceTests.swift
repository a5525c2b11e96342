import Coordinator
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Node

extension EndToEnd {
    @Suite("HTTPS and tokens, by the program")
    struct SecuredInterfaceTests {}
}

extension EndToEnd.SecuredInterfaceTests {
    @Test("The program talks HTTPS with tokens; tokens and certificate change without a restart")
    func whole() async throws {
        try await TestCluster.with(nodes: 1, starting: []) { cluster in
            let (folder, node) = (cluster.folder, cluster.node(1))
            let root = try TestCertificates.write(TestCertificates.root, "root.pem", in: folder)
            _ = try TestCertificates.write(TestCertificates.certificate, "c.pem", in: folder)
            _ = try TestCertificates.write(TestCertificates.key, "k.pem", in: folder)
            for name in ["reader", "admin", "later"] {
                let made = try await TestProcess.run(
                    ["keys", "token", folder.path + "/\(name).token"], in: folder)
                #expect(made.code == 0)
            }
            let plain = try String(contentsOf: node.configuration, encoding: .utf8)
            let secured = plain.replacingOccurrences(
                of: "http:\n",
                with: """
                    http:
                      tls: {certificateFile: c.pem, keyFile: k.pem}
                      tokens:
                        - {file: reader.token, scope: read}
                        - {file: admin.token, scope: admin}

                    """)
            try Data(secured.utf8).write(to: node.configuration)
            try await node.start()
            let said = try String(
                contentsOf: folder.appendingPathComponent("n1.out"), encoding: .utf8)
            #expect(said.contains("https://127.0.0.1:\(node.httpPort)"))

            func run(_ token: String?, _ arguments: String...) async throws -> (Int32, String) {
                let flags =
                    ["--node", "https://localhost:\(node.httpPort)", "--ca-file", root]
                    + (token.map { ["--token-file", folder.path + "/\($0).token"] } ?? [])
                let result = try await TestProcess.run(arguments + flags, in: folder)
                return (result.code, result.output + result.errors)
            }
            let save = folder.appendingPathComponent("save.json")
            let operation = JSONValue.insert("Rollback", ["name": "x"])
            try Data(
                JSONWriter.bytes(of: .object(["operations": .array([operation])]))
            ).write(to: save)
            #expect(try await run("reader", "status").0 == 0)
            #expect(try await run("admin", "save", save.path).0 == 0)
            let refused = try await run("reader", "save", save.path)
            #expect(refused.0 == 7 && refused.1.contains("needs one for write"), "\(refused)")
            #expect(try await run(nil, "status").0 == 7)
            #expect(try await run("later", "status").0 == 7)
            // Without the root nobody believes the node; in clear it does not speak.
            let untrusting = try await TestProcess.run(
                ["status", "--node", "https://localhost:\(node.httpPort)"], in: folder)
            #expect(untrusting.code != 0 && untrusting.errors.contains("--ca-file"))

            // Another reader and another certificate, at a signal.
            let changed = secured.replacingOccurrences(of: "reader.token", with: "later.token")
            try Data(changed.utf8).write(to: node.configuration)
            _ = try TestCertificates.write(TestCertificates.nextCertificate, "c.pem", in: folder)
            _ = try TestCertificates.write(TestCertificates.nextKey, "k.pem", in: folder)
            node.process?.send(SIGHUP)
            try await eventually("the token was taken up", within: .seconds(60)) {
                try await run("later", "status").0 == 0
            }
            #expect(try await run("reader", "status").0 == 7)
            let again = try await run("admin", "keys", "reload")
            #expect(again.0 == 0 && again.1.contains("Nothing has changed."), "\(again)")
            #expect(try await run("later", "keys", "reload").0 == 7)
            for name in ["reader", "admin", "later"] {
                let token = try SecretFile.read(folder.path + "/\(name).token")
                #expect(!node.said.contains(token))
            }
            #expect(!node.said.contains("PRIVATE"))
        }
    }

    @Test("Off loopback a node does not start without tokens, without TLS, or without keys")
    func offLoopback() async throws {
        try await TestCluster.with(nodes: 1, starting: []) { cluster in
            let (folder, node) = (cluster.folder, cluster.node(1))
            let plain = try String(contentsOf: node.configuration, encoding: .utf8)
            _ = try await TestProcess.run(["keys", "token", folder.path + "/a.token"], in: folder)
            let open = plain.replacingOccurrences(
                of: "listen: 127.0.0.1:", with: "listen: 0.0.0.0:")
            let token = open.replacingOccurrences(
                of: "http:\n", with: "http:\n  tokens: [{file: a.token, scope: admin}]\n")
            let mesh = plain.replacingOccurrences(
                of: "publish: tcp://127.0.0.1", with: "publish: tcp://0.0.0.0")
            for (text, reason) in [
                (open, "set http.tokenFile or http.tokens"), (token, "set http.tls"),
                (mesh, "set mesh.secretKeyFile"),
            ] {
                try Data(text.utf8).write(to: node.configuration)
                let result = try await TestProcess.run(
                    ["serve", "--config", node.configuration.path], in: folder)
                #expect(result.code == 2 && result.errors.contains(reason), "\(result)")
            }
            try Data(token.utf8).write(to: node.configuration)
            let check = try await TestProcess.run(
                ["serve", "--config", node.configuration.path, "--insecure", "--check"],
                in: folder)
            #expect(check.code == 0, "\(check)")
        }
    }
}
