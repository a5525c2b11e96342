import Client
import Coordinator
import Merge
import Synchronization
import Testing

@testable import Node

@Suite("The other resources")
struct ResourceContractTests {
    @Test("Health, readiness, metrics and the model")
    func answersSupervisors() async throws {
        try await HTTPTestNode.run { node in
            #expect(try await node.ask("GET", "/healthz").text == #"{"status":"ok"}"#)
            #expect(try await node.ask("GET", "/readyz").status == 200)
            node.backend.ready.withLock { $0 = false }
            let early = try await node.ask("GET", "/readyz")
            #expect(early.status == 503 && early.code == "notReady")
            let metrics = try await node.ask("GET", "/metrics").text
            #expect(metrics.hasPrefix("tributary_up 1\n"))
            let families = metrics.matches(of: /# TYPE (\w+)/).map { String($0.output.1) }
            #expect(families == HTTPServices.metrics.map(\.name))
            let model = try await node.ask("GET", "/v1/model")
            let again = try ManagedObjectModel(json: model.json)
            #expect(again.modelHash == node.coordinator.model.modelHash)
        }
    }

    @Test("Status tells all that the contract lists")
    func tellsStatus() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let status = try await node.ask("GET", "/v1/status")
            #expect(
                status.json.object?.members.map(\.key) == [
                    "node", "actor", "cluster", "vector", "generation", "token", "digest",
                    "modelHash", "parked", "members", "peers", "conflicts", "pins", "store", "held",
                    "transfer", "savesRefused", "alarms", "keys", "stability", "history",
                    "reads", "answers",
                ])
            #expect(status["node"] == .integer(1))
            #expect(status["held"] == .array([]))
            #expect(status["peers.0.node"] == .integer(2))
            #expect(status["peers.0.connected"] == .boolean(true))
            #expect(status["peers.0.lag"] == .integer(4))
            #expect(status["peers.0.clockOffsetMilliseconds"] == .integer(-12))
            #expect(status["modelHash"]?.string == node.coordinator.model.modelHashText)
            #expect((status["store.bytes"]?.integer ?? 0) > 0)
        }
    }

    @Test("Members are listed; a change that makes no sense is refused with what is wrong in it")
    func members() async throws {
        try await HTTPTestNode.run { node in
            let listed = try await node.ask("GET", "/v1/members")
            #expect(listed.status == 200)
            #expect(listed["members.0.state"]?.string == "configured")
            // Who answers is there.
            #expect(listed["members.0.node"] == .integer(1))
            #expect(listed["members.0.connected"] == .boolean(true))
            let wrong = [
                "{}", #"{"node": 0}"#, #"{"node": 32768}"#, #"{"node": 2}"#,
                #"{"node": 2, "publish": "host:1", "exchange": "tcp://host:2"}"#,
                #"{"node": 2, "publish": "tcp://h:1", "exchange": "tcp://h:2", "publicKeys": ["x"]}"#,
                #"{"node": 2, "publish": "tcp://h:1", "exchange": "tcp://h:2", "keys": []}"#,
                #"{"node": 2, "publish": "tcp://0.0.0.0:1", "exchange": "tcp://h:2"}"#,
                #"{"node": 2, "publish": "tcp://_h:1", "exchange": "tcp://h:2"}"#,
                #"{"node": 2, "publish": "tcp://h:0", "exchange": "tcp://h:2"}"#,
                #"{"node": 2, "publish": "tcp://h:1", "exchange": "tcp://h:1"}"#,
            ]
            for body in wrong {
                let answer = try await node.ask("POST", "/v1/members", body)
                #expect(answer.status == 400 && answer.code == "malformed", "\(body)")
            }
            for path in ["/v1/members/x/departure", "/v1/members/0/departure"] {
                #expect(try await node.ask("POST", path, "{}").status == 400)
            }
            // This one has no mesh, so there is nobody to connect to.
            let join = try await node.ask(
                "POST", "/v1/members",
                #"{"node": 2, "publish": "tcp://h:1", "exchange": "tcp://h:2"}"#)
            #expect(join.status == 501 && join.code == "notSupported")
        }
    }

    @Test("A reload takes nothing but an empty object, and needs a file")
    func reloads() async throws {
        try await HTTPTestNode.run { node in
            for body in [nil, "{}"] {
                let answer = try await node.ask("POST", "/v1/reload", body)
                #expect(answer.status == 501 && answer.code == "notSupported", "\(answer.text)")
            }
            for body in [#"{"x": 1}"#, "[]", "x"] {
                let answer = try await node.ask("POST", "/v1/reload", body)
                #expect(answer.status == 400 && answer.code == "malformed", "\(answer.text)")
            }
        }
    }

    @Test("Unknown addresses are 404, wrong methods 405 with what is possible")
    func refusesUnknownRoutes() async throws {
        try await HTTPTestNode.run { node in
            for path in [
                "/nothing", "/v1", "/v1/nothing", "/v1/objects/Person", "/v2/save", "/v1/save/",
            ] {
                let answer = try await node.ask("GET", path)
                #expect(answer.status == 404 && answer.code == "notFound", "\(path)")
            }
            let wrong = try await node.ask("PUT", "/v1/history")
            #expect(wrong.status == 405 && wrong.code == "methodNotAllowed")
            #expect(
                wrong.headers.contains {
                    $0.0.lowercased() == "allow" && $0.1 == "GET, HEAD, DELETE, OPTIONS"
                })
            #expect(try await node.ask("GET", "/v1/%zz").status == 400)
            #expect(try await node.ask("GET", "/v1/%ff").status == 400)
            let before = try node.coordinator.currentToken.text
            let purge = try await node.ask("DELETE", "/v1/history?before=\(before)")
            #expect(purge.status == 501)
            #expect(try await node.ask("DELETE", "/v1/history").status == 400)
        }
    }

    @Test("An address in use is reported in words that people know")
    func saysWhyItCannotListen() async throws {
        try await HTTPTestNode.run { node in
            var options = HTTPServer.Options()
            options.listen = HostAddress(host: "127.0.0.1", port: UInt16(node.server.port))
            let error = await #expect(throws: NodeError.self) {
                _ = try await HTTPServer.start(backend: node.backend, options: options)
            }
            #expect(error?.code == .addressUnavailable)
            #expect(
                error?.message == "The HTTP interface cannot listen on "
                    + "127.0.0.1:\(node.server.port): Address already in use")
        }
    }

    @Test("With a token set, all but health needs it")
    func wantsTheToken() async throws {
        try await HTTPTestNode.run(options: .with { $0.token = "0123456789abcdef" }) { node in
            #expect(try await node.ask("GET", "/v1/status").status == 200)
            let stranger = try NodeClient(url: node.url)
            let refused = try await stranger.request("GET", "/v1/status")
            #expect(refused.status == 401)
            #expect(
                String(decoding: refused.body, as: UTF8.self).contains(#""code":"unauthorized""#))
            #expect(try await stranger.request("GET", "/healthz").status == 200)
            let wrong = try NodeClient(url: node.url, token: "0123456789abcdeF")
            #expect(try await wrong.request("POST", "/v1/save").status == 401)
            await stranger.close()
            await wrong.close()
        }
    }

    @Test("History gives transactions in order, page by page")
    func tellsHistory() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let (bob, _) = try await node.insertPerson("Bob")
            _ = try await node.save(
                """
                {"operations": [{"update": "\(ada)", "add": {"friends": ["\(bob)"]}}],
                 "author": "me", "context": "c", "saveID": "s"}
                """)
            _ = try await node.save(operations: #"{"delete": "\#(bob)"}"#)
            let first = try await node.ask("GET", "/v1/history?limit=1")
            #expect(
                normalised(first.text).hasPrefix(
                    #"{"transactions":[{"dot":"DOT-1","timestamp":{TIME},"seen":{},"#
                        + #""author":null,"context":null,"saveID":null,"changes":[{"#
                        + #""object":"x-tributary://demo/Person/pROW","kind":"insert","#
                        + #""values":{"name":"Ada"}}]}],"token":"TOKEN"}"#))
            let token = try #require(first["token"]?.string)
            let rest = try await node.ask("GET", "/v1/history?after=\(token)")
            let kinds = (rest["transactions"]?.array ?? []).map { transaction in
                (transaction.object?["changes"]?.array ?? []).compactMap {
                    $0.object?["kind"]?.string
                }
            }
            #expect(kinds.first == ["insert"])
            #expect(kinds.last?.contains("delete") == true)
            #expect(rest["transactions.1.author"] == .string("me"))
            #expect(rest["transactions.1.saveID"] == .string("s"))
            let end = try #require(rest["token"]?.string)
            let current = try node.coordinator.currentToken
            #expect(QueryGenerationToken(text: end)?.versionVector == current.versionVector)
            let nothing = try await node.ask("GET", "/v1/history?after=\(end)")
            #expect(nothing["transactions"] == .array([]))
            // Another node's token: what its vector covers is left out.
            let foreign = QueryGenerationToken(
                store: 1, generation: 9, position: 99,
                versionVector: QueryGenerationToken(text: token)?.versionVector ?? VersionVector())
            let same = try await node.ask("GET", "/v1/history?after=\(foreign.text)")
            #expect(same["transactions"] == rest["transactions"])
            for odd in ["after=x", "limit=0", "limit=x", "y=1", "limit=1&limit=2"] {
                #expect(try await node.ask("GET", "/v1/history?\(odd)").status == 400, "\(odd)")
            }
        }
    }

    @Test("The change feed tells every transaction once, and resumes after an event")
    func followsChanges() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Old")
            let after = try node.coordinator.currentToken.text
            let stream = try await node.client.stream("GET", "/v1/changes?after=\(after)")
            #expect(stream.status == 200)
            _ = try await node.insertPerson("Ada")
            _ = try await node.insertPerson("Bob")
            let events = try await Self.events(stream, 2)
            #expect(events.map(\.data).map { $0.contains("Ada") } == [true, false])
            #expect(events[1].data.contains("Bob"))
            let resumed = try await node.client.stream(
                "GET", "/v1/changes", headers: [("Last-Event-ID", events[0].id)])
            let again = try await Self.events(resumed, 1)
            #expect(again[0].data == events[1].data && again[0].id == events[1].id)
            let wrong = try await node.ask("GET", "/v1/changes", headers: [("Last-Event-ID", "x")])
            #expect(wrong.status == 400)
        }
    }

    private static func events(
        _ stream: NodeLineStream, _ count: Int
    ) async throws -> [(id: String, data: String)] {
        var events: [(id: String, data: String)] = []
        var id = ""
        for try await line in stream {
            if line.hasPrefix("id: ") { id = String(line.dropFirst(4)) }
            if line.hasPrefix("data: ") { events.append((id, String(line.dropFirst(6)))) }
            if events.count == count { break }
        }
        return events
    }

    @Test("Stopping ends streams and refuses connections")
    func stopsCleanly() async throws {
        try await HTTPTestNode.run(options: .with { $0.stopGrace = .seconds(60) }) { node in
            let stream = try await node.client.stream("GET", "/v1/changes")
            var lines = stream.makeAsyncIterator()
            #expect(try await lines.next() == ": following")
            await node.server.stop()
            while let line = try await lines.next() { #expect(line.isEmpty) }
            await #expect(throws: ClientError.self) {
                _ = try await NodeClient(url: node.url)
                    .request("GET", "/healthz")
            }
        }
    }

    @Test("Clients that read for long leave connections to the store for the node itself")
    func readers() {
        // For others' logs, for what is measured, and for a backup.
        let own = PersistentStoreCoordinator.Options().readers - HTTPServer.Options().readingThreads
        #expect(own >= 3)
    }

    @Test("Verification compares with the rows, and with peers at the same vector")
    func verifies() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let alone = try await node.ask("POST", "/v1/verify")
            #expect(alone["ok"] == .boolean(true))
            #expect(alone["digest"] == alone["recomputed"])
            #expect(alone["peers"] == .object(JSONObject()))
            let vector = try node.coordinator.currentToken.versionVector
            let peers = [
                PeerDigest(
                    node: try HTTPTestNode.node(2), vector: VersionVector(),
                    digest: ProjectionDigest()),
                PeerDigest(
                    node: try HTTPTestNode.node(3), vector: vector,
                    digest: try node.coordinator.currentDigest),
            ]
            node.backend.digests.withLock { $0 = peers }
            let agreeing = try await node.ask("POST", "/v1/verify", "{}")
            #expect(agreeing["ok"] == .boolean(true))
            #expect(agreeing["peers.2.agrees"] == .null)
            #expect(agreeing["peers.3.agrees"] == .boolean(true))
            let liar = PeerDigest(
                node: try HTTPTestNode.node(4), vector: vector, digest: ProjectionDigest())
            node.backend.digests.withLock { $0 = [liar] }
            let different = try await node.ask("POST", "/v1/verify")
            #expect(different["ok"] == .boolean(false))
            #expect(different["sound"] == .boolean(true))
            #expect(different["differences"]?.array?.count == 1)
            #expect(try await node.ask("POST", "/v1/verify", #"{"x": 1}"#).status == 400)
        }
    }
}
