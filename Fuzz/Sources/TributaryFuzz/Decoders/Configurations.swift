@testable import Node

extension Decoder {
    /// A node's configuration in YAML.
    static let configuration = Decoder(
        name: "configuration", maximumLength: 4096,
        seeds: { _ in
            let key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
            return [
                """
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
                """,
                """
                cluster: "2024"
                node: 0x7
                store: /n1.sqlite
                model: &m model.json
                http: {listen: "0.0.0.0:80", tokenFile: t, maxBodyBytes: 4096, maxConnections: 9}
                """,
                """
                cluster: a
                node: 3
                store: s
                model: m
                mesh:
                  publish: tcp://*:1
                  exchange: tcp://[::]:2
                  advertise: {publish: "tcp://h:1", exchange: "tcp://h:2"}
                  secretKeyFile: k
                  insecure: true
                  peers: [{node: 4, publish: "tcp://h:3", exchange: "tcp://h:4", publicKey: "\(key)"}]
                """, "a: [*b, &b c]", "- - - x", "? {a: b}\n: !!int 3", "--- |\n x\n...\n--- y", "",
                "a: *a", "cluster: ~\nnode: 1e3\n", "<<: {node: 1}\n\"\\u0000\": !!str",
            ].map { Array($0.utf8) }
        },
        run: { bytes in
            guard let text = String(validating: bytes, as: UTF8.self) else { return }
            _ = attempt(
                throwing: NodeError.self, where: { $0.code == .configurationInvalid },
                { try NodeConfiguration.parse(text, file: "etc/n.yaml") })
            _ = attempt(
                throwing: NodeError.self, where: { $0.code == .configurationInvalid },
                {
                    try NodeConfiguration.parse(
                        "", file: "n.yaml",
                        environment: [
                            "TRIBUTARY_CLUSTER": "a", "TRIBUTARY_NODE_NUMBER": "1",
                            "TRIBUTARY_STORE": "s", "TRIBUTARY_MODEL": "m",
                            "TRIBUTARY_MESH_PUBLISH": "tcp://127.0.0.1:1",
                            "TRIBUTARY_MESH_EXCHANGE": "tcp://127.0.0.1:2",
                            "TRIBUTARY_MESH_PEERS": text,
                        ])
                })
        })
}
