import Coordinator
import Foundation
import Merge
import Node
import TestSupport
import Testing

@Suite("Configuration") struct ConfigurationTests {
    static let whole = """
        cluster: demo
        node: 1
        store: data/n1.sqlite
        model: model.json
        http:
          listen: 127.0.0.1:7100
        mesh:
          publish: tcp://127.0.0.1:7101
          exchange: tcp://127.0.0.1:7102
          source: 127.0.0.11
          peers:
            - {node: 2, publish: "tcp://127.0.0.1:7201", exchange: "tcp://127.0.0.1:7202"}
            - {node: 3, publish: "tcp://127.0.0.1:7301", exchange: "tcp://127.0.0.1:7302"}
        """

    static func error(
        _ text: String, environment: [String: String] = [:],
        overrides: NodeConfiguration.Overrides = .init()
    ) -> String {
        do {
            _ = try NodeConfiguration.parse(
                text, file: "etc/n.yaml", environment: environment, overrides: overrides)
            return "no error"
        } catch { return error.message }
    }

    @Test("The documented example is read whole, with paths beside the file")
    func example() throws {
        let read = try NodeConfiguration.parse(Self.whole, file: "etc/n.yaml")
        #expect(read.cluster == "demo")
        #expect(read.node == NodeID(1))
        #expect(read.store == "etc/data/n1.sqlite")
        #expect(read.model == "etc/model.json")
        #expect(read.http.listen.description == "127.0.0.1:7100")
        #expect(read.http.maxBodyBytes == 16 << 20)
        #expect(read.http.maxAnswerBytes == 128 << 20)
        #expect(read.http.slowClientSeconds == 30)
        #expect(read.http.headerTimeoutSeconds == 10 && read.http.bodyTimeoutSeconds == 60)
        let mesh = try #require(read.mesh)
        #expect(mesh.exchange.description == "tcp://127.0.0.1:7102")
        #expect(mesh.source == "127.0.0.11")
        #expect(mesh.peers.map(\.node) == [NodeID(2), NodeID(3)])
        #expect(mesh.peers[1].publish.description == "tcp://127.0.0.1:7301")
    }

    @Test(
        "A number that YAML could read as another one is refused",
        arguments: [
            "010", "0x10", "0o10", "1_0", "1.0", "1e1", "1:30", "+1", "-0", "'1'", "yes", "~",
        ])
    func ambiguousNumbers(_ number: String) {
        let text = Self.whole.replacingOccurrences(of: "node: 1\n", with: "node: \(number)\n")
        #expect(text != Self.whole)
        #expect(Self.error(text).contains("etc/n.yaml:2: node must be a whole number from 1 to "))
    }

    @Test("A byte order mark before the file is skipped")
    func byteOrderMark() throws {
        let read = try NodeConfiguration.parse("\u{FEFF}" + Self.whole, file: "n.yaml")
        #expect(read.cluster == "demo")
    }

    @Test("The limits of history have defaults, and are read from the file and the environment")
    func history() throws {
        let plain = try NodeConfiguration.parse(Self.whole, file: "n.yaml")
        #expect(plain.history.keepMilliseconds == 30 * 86_400_000)
        #expect(plain.history.maximumBytes == 4 << 30)
        #expect(plain.history.maximumRecords == 1_000_000)
        let read = try NodeConfiguration.parse(
            Self.whole + """

                history: {keep: 12h, maximumBytes: 1048576}
                journal:
                  maximumRecords: 10
                """, file: "n.yaml", environment: ["TRIBUTARY_HISTORY_KEEP": "90m"])
        #expect(read.history.keepMilliseconds == 90 * 60_000)
        #expect(read.history.maximumBytes == 1 << 20)
        #expect(read.history.maximumRecords == 10)
    }

    @Test("How fast copies are given has a default, and is read from the environment")
    func transferRate() throws {
        let name = "TRIBUTARY_MESH_TRANSFER_BYTES_PER_SECOND"
        let plain = try NodeConfiguration.parse(Self.whole, file: "n.yaml")
        #expect(plain.mesh?.transferBytesPerSecond == 10 << 20)
        let read = try NodeConfiguration.parse(Self.whole, file: "n.yaml", environment: [name: "0"])
        #expect(read.mesh?.transferBytesPerSecond == 0)
        #expect(
            Self.error(Self.whole, environment: [name: "fast"])
                .contains("mesh.transferBytesPerSecond"))
    }

    @Test(
        "A limit of history that makes no sense is refused by its name",
        arguments: [
            ("history: {keep: 12}", "history.keep"), ("history: {keep: 5w}", "history.keep"),
            ("history: {keep: -1d}", "history.keep"), ("history: {keep: d}", "history.keep"),
            ("history: {keep: 36501d}", "history.keep"),
            ("history: {keep: 9999999999d}", "history.keep"),
            ("history: {maximumBytes: 1}", "history.maximumBytes"),
            ("history: {maximum: 1}", "history.maximum"),
            ("journal: {maximumRecords: -1}", "journal.maximumRecords"),
        ])
    func wrongHistory(line: String, key: String) {
        #expect(Self.error(Self.whole + "\n" + line).contains(key))
        #expect(
            Self.error(Self.whole, environment: ["TRIBUTARY_HISTORY_KEPT": "1d"])
                .contains("TRIBUTARY_HISTORY_KEPT"))
    }

    @Test("Flags go before the environment, which goes before the file")
    func precedence() throws {
        var overrides = NodeConfiguration.Overrides()
        overrides.listen = "127.0.0.1:9"
        let read = try NodeConfiguration.parse(
            Self.whole, file: "n.yaml",
            environment: [
                "TRIBUTARY_HTTP_LISTEN": "127.0.0.1:8", "TRIBUTARY_NODE_NUMBER": "7",
                "TRIBUTARY_NODE": "http://127.0.0.1:7100", "TRIBUTARY_STORE": "x.sqlite",
                "TRIBUTARY_HTTP_MAX_BODY_BYTES": "4096", "TRIBUTARY_CLUSTER": "2024",
                "TRIBUTARY_HTTP_MAX_ANSWER_BYTES": "100000000",
                "TRIBUTARY_HTTP_SLOW_CLIENT_SECONDS": "5",
                "TRIBUTARY_HTTP_HEADER_TIMEOUT_SECONDS": "6",
                "TRIBUTARY_HTTP_BODY_TIMEOUT_SECONDS": "7",
                "TRIBUTARY_MESH_PEERS":
                    "[{node: 9, publish: 'tcp://127.0.0.1:1', exchange: 'tcp://127.0.0.1:2'}]",
            ], overrides: overrides)
        #expect(read.http.listen.port == 9)
        #expect(read.node == NodeID(7))
        #expect(read.store == "x.sqlite")
        #expect(read.cluster == "2024")
        #expect(read.http.maxBodyBytes == 4096)
        #expect(read.http.maxAnswerBytes == 100_000_000)
        #expect(read.http.slowClientSeconds == 5)
        #expect(read.http.headerTimeoutSeconds == 6 && read.http.bodyTimeoutSeconds == 7)
        #expect(read.mesh?.peers.first?.node == NodeID(9))
    }

    private static let listen = "listen: 127.0.0.1:7100"
    private static let exchange = "exchange: tcp://127.0.0.1:7102"
    private static let peer = "exchange: \"tcp://127.0.0.1:7302\""
    private static let source = "source: 127.0.0.11"

    /// For what stands in the file: what replaces it, and with which line and reason that is refused.
    private static let wrongSettings: KeyValuePairs<String, KeyValuePairs<String, String>> = [
        "node: 1": [
            "node: 0": "2: node must be a whole number from 1 to 32767, not 0",
            "node: one": "2: node must be a whole number from 1 to 32767, not 'one'",
        ],
        "cluster: demo": [
            "cluster: 7": "1: cluster must be text; put 7 in quotes",
            "cluster: De/mo": "1: cluster must be 1 to 63 of a-z, 0-9, - and ., not 'De/mo'",
            "clutter: demo":
                "1: clutter is not a setting; known here: cluster, history, http, journal, "
                + "mesh, model, node, store",
        ],
        "store: data/n1.sqlite": [
            "": " store is missing",
            "store: [a]": "3: store must be text, not a list",
        ],
        listen: [
            "listen: 7100": "6: http.listen must be text; put 7100 in quotes",
            "listen: 127.0.0.1:70000":
                "6: http.listen must be host:port, such as 127.0.0.1:7100, not '127.0.0.1:70000'",
            "listen: 0.0.0.0:7100":
                "6: http.listen can be reached from other machines: set http.tokenFile or "
                + "http.tokens, or listen on 127.0.0.1",
            "listen: 0.0.0.0:7100\n  tokenFile: t":
                "6: http.listen can be reached from other machines, and tokens would go "
                + "there in clear: set http.tls, or listen on 127.0.0.1 behind a proxy that "
                + "has it, or set http.insecure to allow it",
            "tls: {certificateFile: c}":
                "6: http.tls.certificateFile needs http.tls.keyFile beside it",
            "hosts: [\"a.example:80\"]":
                "6: http.hosts[0] must be a host, such as shop.example, not 'a.example:80'",
            "origins: [\"*\"]":
                "6: http.origins[0] must be an origin, such as https://shop.example, not '*'",
            "tls: {}": "6: http.tls needs certificateFile and keyFile",
            "tokens: [{file: t, scope: all}]":
                "6: http.tokens[0].scope must be one of read, write, admin, not 'all'",
            "tokens: [{scope: read}]": " http.tokens[0].file is missing",
        ],
        "7302\"}": [
            "7302\", publicKey: a, publicKeys: [a]}":
                "13: mesh.peers[1].publicKeys and publicKey exclude each other",
            "7302\", publicKeys: []}": "13: mesh.peers[1].publicKeys must be 1 to 4 keys",
            "7302\", publicKeys: [short]}":
                "13: mesh.peers[1].publicKeys[0] must be a key of 40 characters, not 'short'",
        ],
        "publish: tcp://127.0.0.1:7101": [
            "publish: tcp://10.0.0.1:7101":
                "8: mesh.publish can be reached from other machines: set mesh.secretKeyFile "
                + "(`tributary keygen`), or mesh.insecure to allow it"
        ],
        peer: [
            "exchange: \"127.0.0.1:7302\"":
                "13: mesh.peers[1].exchange must be tcp://host:port, not '127.0.0.1:7302'",
            "exchange: \"tcp://*:7302\"":
                "13: mesh.peers[1].exchange must be where others reach the node, not every "
                + "address of a machine",
            "exchange: \"tcp://127.0.0.1:0\"":
                "13: mesh.peers[1].exchange must be where others reach the node; nobody "
                + "listens on port 0",
            "exchange: \"tcp://127.0.0.1:7101\"":
                "13: mesh.peers[1].exchange is this node's own address",
        ],
        exchange: [
            "exchange: tcp://127.0.0.1:7101":
                "9: mesh.exchange is where mesh.publish is; give it a port of its own",
            "exchange: tcp://127.0.0.1:7100":
                " mesh.exchange is where http.listen is; give it a port of its own",
        ],
        "{node: 3,": [
            "{node: 2,": "13: mesh.peers[1].node is 2, as that of another peer",
            "{node: 1,": "13: mesh.peers[1].node is this node's own number",
        ],
        source: [
            "secretKeyFile: k":
                "12: mesh.peers[0] needs a publicKey, since mesh.secretKeyFile is set",
            "insecure: yes": "10: mesh.insecure must be true or false, not 'yes'",
            "source: eth0":
                "10: mesh.source must be an address of this machine, such as 127.0.0.11, "
                + "not 'eth0'",
        ],
    ]

    @Test("A wrong setting is refused with file, line, key and reason")
    func golden() {
        for (old, wrong) in Self.wrongSettings {
            #expect(Self.whole.contains(old))
            for (new, message) in wrong {
                let text = Self.whole.replacingOccurrences(of: old, with: new)
                #expect(Self.error(text) == "etc/n.yaml:\(message)")
            }
        }
    }

    @Test("An error from outside the file names the variable or the flag")
    func outside() {
        #expect(
            Self.error(Self.whole, environment: ["TRIBUTARY_MESH_PUBLISH": "x"])
                == "TRIBUTARY_MESH_PUBLISH: mesh.publish must be tcp://host:port, not 'x'")
        #expect(
            Self.error(Self.whole, environment: ["TRIBUTARY_MESH_PUBLISHES": "x"])
                == "The environment's TRIBUTARY_MESH_PUBLISHES is not a setting")
        var overrides = NodeConfiguration.Overrides()
        overrides.node = "x"
        #expect(
            Self.error(Self.whole, overrides: overrides)
                == "--node-number: node must be a whole number from 1 to 32767, not 'x'")
    }

    @Test("What the environment says of a mesh is taken, or refused with the reason")
    func meshOfTheEnvironment() throws {
        let alone = Self.whole.components(separatedBy: "mesh:")[0]
        #expect(Self.error(alone) == "no error")
        let name = "TRIBUTARY_MESH_SECRET_KEY_FILE"
        let reason = ": there is no mesh; set mesh.publish and mesh.exchange as well"
        #expect(Self.error(alone, environment: [name: "k"]) == name + reason)
        let read = try NodeConfiguration.parse(
            alone, file: "n.yaml",
            environment: [
                name: "k", "TRIBUTARY_MESH_PUBLISH": "tcp://127.0.0.1:7101",
                "TRIBUTARY_MESH_EXCHANGE": "tcp://127.0.0.1:7102",
            ])
        #expect(read.mesh?.secretKeyFile == "k")
    }

    @Test("A variable that was meant for a setting is refused, one of another program is not")
    func misspeltVariables() {
        for name in [
            "CLUSTR", "STORES", "STORE_FILE", "HTTP", "MESH", "HTPP_LISTEN", "NODE_NUMBR", "MODLE",
            "MSH_PEERS", "HISTORY",
        ] {
            #expect(
                Self.error(Self.whole, environment: ["TRIBUTARY_\(name)": "x"])
                    == "The environment's TRIBUTARY_\(name) is not a setting")
        }
        for name in [
            "NODE", "TOKEN_FILE", "CA_FILE", "SOAK", "KILL_POINTS", "FUZZ_BUILT", "FUZZ_DECODER",
            "PROGRAM", "USER", "KEEP", "MUTANT",
        ] {
            #expect(Self.error(Self.whole, environment: ["TRIBUTARY_\(name)": "x"]) == "no error")
        }
    }

    @Test("What is no YAML, no group or no text is refused, never trapped on")
    func hostile() {
        #expect(Self.error("a: [") != "no error")
        #expect(Self.error("") == "etc/n.yaml: node is missing")
        #expect(
            Self.error("- 1") == "etc/n.yaml:1: the file must be a group of settings, not a list")
        #expect(
            Self.error(Self.whole + "\nnode: 2")
                == "etc/n.yaml:2: node is set more than once in its group")
        #expect(Self.error("? [1]\n: 2").contains("is not a setting"))
        #expect(throws: NodeError.self) { try NodeConfiguration.read(file: "/nowhere/n.yaml") }
    }

    @Test("Tokens with scopes, TLS and second keys are read, with paths beside the file")
    func security() throws {
        let (one, other) = (try CurveKeys.generate(), try CurveKeys.generate())
        let third = try CurveKeys.generate()
        let text =
            Self.whole
            .replacingOccurrences(
                of: "listen: 127.0.0.1:7100",
                with: """
                    listen: 0.0.0.0:7100
                      tls: {certificate: c.pem, keyFile: /k.pem}
                      tokens:
                        - {file: reader.token, scope: read}
                        - {file: boss.token, scope: admin, name: boss}
                    """
            )
            .replacingOccurrences(of: "source: 127.0.0.11", with: "secretKeyFile: own.secret")
            .replacingOccurrences(of: "7202\"}", with: "7202\", publicKey: \"\(third.publicKey)\"}")
            .replacingOccurrences(
                of: "7302\"}",
                with: "7302\", publicKeys: [\"\(one.publicKey)\", \"\(other.publicKey)\"]}")
        let read = try NodeConfiguration.parse(text, file: "etc/n.yaml")
        #expect(read.http.tls == .init(certificateFile: "etc/c.pem", keyFile: "/k.pem"))
        #expect(
            read.http.tokens == [
                .init(file: "etc/reader.token", scope: .read, name: "read"),
                .init(file: "etc/boss.token", scope: .admin, name: "boss"),
            ])
        #expect(read.mesh?.peers[0].publicKeys == [third.publicKey])
        #expect(read.mesh?.peers[1].publicKeys == [one.publicKey, other.publicKey])
        let twice = text.replacingOccurrences(of: third.publicKey.text, with: other.publicKey.text)
        #expect(Self.error(twice).contains("is that of another peer"))
        // Without TLS the same is let through only where insecurity is asked for.
        let clear = text.replacingOccurrences(
            of: "tls: {certificate: c.pem, keyFile: /k.pem}", with: "insecure: true")
        #expect(try NodeConfiguration.parse(clear, file: "n.yaml").http.tls == nil)
        var overrides = NodeConfiguration.Overrides()
        overrides.insecure = true
        let flagged = clear.replacingOccurrences(of: "insecure: true", with: "insecure: false")
        #expect(Self.error(flagged).contains("in clear"))
        #expect(Self.error(flagged, overrides: overrides) == "no error")
    }

    @Test("Certificate and key have two names each; what is outside the file goes before it")
    func namesOfTLS() throws {
        func parse(
            _ settings: String, _ environment: [String: String] = [:]
        ) throws -> NodeConfiguration.TLS? {
            let text = Self.whole.replacingOccurrences(of: "listen: 127.0.0.1:7100", with: settings)
            return try NodeConfiguration.parse(
                text, file: "etc/n.yaml", environment: environment
            ).http.tls
        }
        let files = ["tls: {certificate: c, key: k}", "tls: {certificateFile: c, keyFile: k}"]
        let named = NodeConfiguration.TLS(certificateFile: "etc/c", keyFile: "etc/k")
        for file in files { #expect(try parse(file) == named) }
        for (certificate, key) in [("CERTIFICATE", "KEY"), ("CERTIFICATE_FILE", "KEY_FILE")] {
            let variables = [
                "TRIBUTARY_HTTP_TLS_\(certificate)": "/e", "TRIBUTARY_HTTP_TLS_\(key)": "/f",
            ]
            for file in files + ["listen: 127.0.0.1:7100"] {
                #expect(
                    try parse(file, variables)
                        == NodeConfiguration.TLS(certificateFile: "/e", keyFile: "/f"))
            }
            #expect(
                try parse("tls: {certificateFile: c}", ["TRIBUTARY_HTTP_TLS_\(key)": "/f"])
                    == NodeConfiguration.TLS(certificateFile: "etc/c", keyFile: "/f"))
        }
        let twice = Self.whole.replacingOccurrences(
            of: "listen: 127.0.0.1:7100",
            with: "tls: {certificate: c, certificateFile: d, key: k}")
        #expect(
            Self.error(twice)
                == "etc/n.yaml:6: http.tls.certificate is set, and certificateFile too")
        let both = [
            "TRIBUTARY_HTTP_TLS_KEY": "/f", "TRIBUTARY_HTTP_TLS_KEY_FILE": "/g",
            "TRIBUTARY_HTTP_TLS_CERTIFICATE": "/e",
        ]
        #expect(
            Self.error(Self.whole, environment: both)
                == "TRIBUTARY_HTTP_TLS_KEY: http.tls.key is set, and keyFile too")
    }

    @Test("A token is read only from a file that others cannot read")
    func token() throws {
        let folder = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("token").path
        try "0123456789abcdef\n".write(toFile: file, atomically: false, encoding: .utf8)
        var configuration = try NodeConfiguration.parse(Self.whole, file: "n.yaml")
        configuration.http.tokenFile = file
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        #expect { try configuration.readToken() } throws: {
            ($0 as? NodeError)?.message
                == "http.tokenFile: \(file) may be read by others (mode 644): run `chmod 600 \(file)`"
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        #expect(try configuration.readToken() == "0123456789abcdef")
    }

    @Test("A secret that cannot be read is refused with the key that names it")
    func namedSecrets() throws {
        var configuration = try NodeConfiguration.parse(Self.whole, file: "n.yaml")
        configuration.http.tokens = [.init(file: "/nowhere/t", scope: .read, name: "read")]
        configuration.mesh?.secretKeyFile = "/nowhere/k"
        let reason = "cannot be read: No such file or directory"
        #expect { try configuration.readTokens() } throws: {
            ($0 as? NodeError)?.message == "http.tokens[0].file: /nowhere/t \(reason)"
        }
        #expect { try configuration.readKeys() } throws: {
            ($0 as? NodeError)?.message == "mesh.secretKeyFile: /nowhere/k \(reason)"
        }
    }
}
