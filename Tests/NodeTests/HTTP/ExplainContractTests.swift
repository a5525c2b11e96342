import Client
import Coordinator
import Merge
import Testing

@testable import Node

/// Blame, logs, differences, the past, undone saves and short names over HTTP.
@Suite("Explaining over HTTP")
struct ExplainContractTests {
    private static let model = """
        {"entities": [
          {"name": "Contact", "mergePolicy": "error",
           "attributes": [
             {"name": "name", "type": "string"}, {"name": "phone", "type": "string"},
             {"name": "shop", "type": "string"}],
           "relationships": [
             {"name": "friends", "destination": "Contact", "inverse": "friends", "toMany": true}]}]}
        """

    private func run(_ body: (HTTPTestNode) async throws -> Void) async throws {
        try await HTTPTestNode.run(model: Self.model, body)
    }

    private func insert(
        _ node: HTTPTestNode, _ name: String, shop: String = "North"
    ) async throws -> String {
        let answer = try await node.save(
            #"{"operations": [{"insert": "Contact", "id": "@c", "values": {"name": "\#(name)", "phone": "1", "shop": "\#(shop)"}}], "author": "setup"}"#
        )
        return try #require(answer["ids.@c"]?.string, "\(answer.text)")
    }

    /// Another node's writes to phone numbers, earlier than ours by the clock, which had not seen them.
    private func dispute(_ node: HTTPTestNode, _ uris: [String]) async throws {
        let seen = try node.coordinator.currentToken.versionVector
        for uri in uris {
            let saved = try await node.save(
                #"{"operations": [{"update": "\#(uri)", "values": {"phone": "ours"}}], "author": "anna"}"#
            )
            #expect(saved.status == 200, "\(saved.text)")
        }
        let rows = try uris.map { try #require(ObjectURI($0)).row }
        try node.apply(
            seen: seen, [ChangeShape(entity: "Contact", assigned: ["phone"])],
            rows.map { Change(kind: .update, shape: 0, row: $0, values: [.string("theirs")]) })
    }

    private func path(_ uri: String) -> String {
        uri.replacing("x-tributary://demo/", with: "/v1/objects/")
    }

    @Test("A resolution by a short ID and a number is told with author, note and value")
    func decides() async throws {
        try await run { node in
            let uri = try await insert(node, "Ada")
            try await dispute(node, [uri])
            let list = try await node.ask("GET", "/v1/conflicts?open=true")
            let short = try #require(list["conflicts.0.short"]?.string)
            let full = try #require(list["conflicts.0.id"]?.string)
            let shown = try await node.ask("GET", "/v1/conflicts/\(short)")
            #expect(shown["id"]?.string == full && shown["decision"] == .null)
            let sides = (shown["sides"]?.array ?? []).compactMap { $0.object?["dot"]?.string }
            // Transactions may be named by the beginnings of their names too.
            let cut = sides.map { dot in
                let parts = dot.split(separator: "-")
                return "\"\(parts[0].prefix(8))-\(parts[1])\""
            }.joined(separator: ",")
            let resolved = try await node.ask(
                "POST", "/v1/conflicts/\(short)/resolution",
                #"{"side": 2, "sides": [\#(cut)], "author": "carl", "note": "he said so"}"#)
            #expect(resolved.status == 200, "\(resolved.text)")
            let closed = try await node.ask("GET", "/v1/conflicts?open=false")
            let id = try #require(closed["conflicts.0.id"]?.string)
            let one = try await node.ask("GET", "/v1/conflicts/\(id)")
            #expect(one["decision.author"]?.string == "carl")
            #expect(one["decision.note"]?.string == "he said so")
            #expect(one["decision.value"]?.string == "ours")
            #expect(one["decision.by"]?.integer == 1)
            for (body, code) in [
                (#"{"note": ""}"#, "malformed"), (#"{"note": 5}"#, "malformed"),
                (#"{"notes": "x"}"#, "malformed"),
            ] {
                let refused = try await node.ask("POST", "/v1/conflicts/\(id)/undo", body)
                #expect(refused.status == 400 && refused.code == code, "\(refused.text)")
            }
            let unknown = try await node.ask("GET", "/v1/conflicts/0000000000000000")
            #expect(unknown.status == 404 && unknown.code == "conflictNotFound")
        }
    }

    @Test("Many conflicts are tried and resolved by one save, which is undone as one")
    func many() async throws {
        try await run { node in
            let north = [try await insert(node, "A"), try await insert(node, "B")]
            let south = try await insert(node, "C", shop: "South")
            try await dispute(node, north + [south])
            let body = { (dryRun: Bool) in
                #"{"entity": "Contact", "where": "shop == 'North'", "policy": "overwrite", "#
                    + #""dryRun": \#(dryRun), "author": "carl", "note": "all of North"}"#
            }
            let tried = try await node.ask("POST", "/v1/conflicts/resolution", body(true))
            #expect(tried["count"]?.integer == 2 && tried["transaction"] == .null, "\(tried.text)")
            #expect(tried["conflicts.0.value"]?.string == "ours")
            let open = try await node.ask("GET", "/v1/conflicts?open=true")
            #expect(open["conflicts"]?.array?.count == 3)
            let done = try await node.ask("POST", "/v1/conflicts/resolution", body(false))
            #expect(done["count"]?.integer == 2, "\(done.text)")
            let dot = try #require(done["transaction"]?.string)
            let left = try await node.ask("GET", "/v1/conflicts?open=true")
            #expect(left["conflicts"]?.array?.count == 1)
            #expect(try await node.ask("GET", path(north[0]))["values.phone"]?.string == "ours")
            let undone = try await node.ask("POST", "/v1/saves/\(dot)/undo", #"{"author": "dora"}"#)
            #expect(undone["count"]?.integer == 2, "\(undone.text)")
            #expect(undone["newer"]?.array?.isEmpty == true)
            for uri in north {
                let now = try await node.ask("GET", path(uri))
                #expect(now["values.phone"]?.string == "theirs", "\(now.text)")
            }
            // Asked for again it has nothing left to do, and what is wrong in it is told all the same.
            let again = try await node.ask("POST", "/v1/saves/\(dot)/undo")
            #expect(again["count"]?.integer == 0 && again["transaction"] == .null, "\(again.text)")
            for wrong in [
                #"{"saveID": "x"}"#, #"{"author": 1}"#, #"{"note": ""}"#, #"{"dryRun": "x"}"#,
            ] {
                let refused = try await node.ask("POST", "/v1/saves/\(dot)/undo", wrong)
                #expect(refused.status == 400, "\(wrong): \(refused.text)")
            }
            for wrong in [
                #"{"policy": "overwrite", "note": ""}"#, #"{"policy": "error"}"#,
                #"{"entity": "Contact"}"#,
                #"{"policy": "overwrite", "where": "name == 'x'"}"#,
                #"{"policy": "overwrite", "entity": "Kontact"}"#,
                #"{"policy": "overwrite", "kind": "nonsense"}"#,
            ] {
                let refused = try await node.ask("POST", "/v1/conflicts/resolution", wrong)
                #expect(refused.status == 400, "\(wrong): \(refused.text)")
            }
        }
    }

    @Test("Blame, log and difference tell of an object what happened to it")
    func explains() async throws {
        try await run { node in
            let uri = try await insert(node, "Ada")
            let token = try #require(
                try await node.fetch(#"{"entity": "Contact"}"#)["token"]?.string)
            try await dispute(node, [uri])
            let blame = try await node.ask("GET", path(uri) + "/blame?property=phone")
            #expect(blame["alive"] == .boolean(true), "\(blame.text)")
            #expect(blame["properties.0.value"]?.string == "theirs")
            #expect(blame["properties.0.write.author"]?.string == "elsewhere")
            #expect(blame["properties.0.previous.value"]?.string == "1")
            #expect(blame["properties.0.previous.write.author"]?.string == "setup")
            #expect(blame["properties.0.beat.0.value"]?.string == "ours")
            #expect(blame["properties.0.beat.0.state"]?.string == "unresolved")
            let log = try await node.ask("GET", path(uri) + "/log")
            #expect(log["entries"]?.array?.count == 3 && log["complete"] == .boolean(true))
            #expect(log["entries.0.kind"]?.string == "insert")
            #expect(log["entries.0.after"]?.array?.isEmpty == true)
            #expect(log["entries.2.after"] == log["entries.1.after"], "\(log.text)")
            let diff = try await node.ask("GET", "/v1/diff?from=\(token)")
            #expect(diff["counts.update"]?.integer == 1, "\(diff.text)")
            #expect(diff["objects.0.object"]?.string == uri)
            #expect(diff["objects.0.properties.phone"]?.string == "theirs")
            for wrong in [
                path(uri) + "/blame?property=fone", "/v1/diff", "/v1/diff?from=nonsense",
                "/v1/diff?from=\(token)&entity=Kontact", path(uri) + "/log?limit=0",
            ] {
                let refused = try await node.ask("GET", wrong)
                #expect(refused.status == 400, "\(wrong): \(refused.text)")
            }
            let gone = try await node.ask("GET", "/v1/objects/Contact/p5/blame")
            #expect(gone.status == 404 && gone.code == "objectNotFound")
        }
    }

    @Test("A fetch at a token or a time reads the store as it was, whole and by lines")
    func past() async throws {
        try await run { node in
            let uri = try await insert(node, "Ada")
            let token = try #require(
                try await node.fetch(#"{"entity": "Contact"}"#)["token"]?.string)
            _ = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"name": "Eve"}}"#)
            let then = try await node.fetch(#"{"entity": "Contact", "at": "\#(token)"}"#)
            #expect(then["objects.0.values.name"]?.string == "Ada", "\(then.text)")
            let now = try await node.fetch(#"{"entity": "Contact"}"#)
            #expect(now["objects.0.values.name"]?.string == "Eve")
            let one = try await node.ask("GET", path(uri) + "?at=\(token)")
            #expect(one["values.name"]?.string == "Ada", "\(one.text)")
            let before = try await node.fetch(
                #"{"entity": "Contact", "at": "2001-01-01T00:00:00Z"}"#)
            #expect(before["objects"]?.array?.isEmpty == true, "\(before.text)")
            let lines = try await node.client.request(
                "POST", "/v1/fetch",
                body: Array(#"{"entity": "Contact", "at": "\#(token)"}"#.utf8),
                headers: [("Accept", "application/x-ndjson")])
            #expect(String(decoding: lines.body, as: UTF8.self).contains("\"Ada\""))
            for wrong in [
                #"{"entity": "Contact", "at": "nonsense"}"#,
                #"{"entity": "Contact", "at": "\#(token)", "generation": "\#(token)"}"#,
            ] {
                #expect(try await node.fetch(wrong).status == 400)
            }
        }
    }

    @Test("History begins with the newest, and is of one object")
    func newest() async throws {
        try await run { node in
            let ada = try await insert(node, "Ada")
            for name in ["B", "C", "D"] { _ = try await insert(node, name) }
            _ = try await node.save(
                operations: #"{"update": "\#(ada)", "values": {"name": "Eve"}}"#)
            var names: [String] = []
            var next = ""
            while true {
                let page = try await node.ask("GET", "/v1/history?order=newest&limit=2\(next)")
                for transaction in page["transactions"]?.array ?? [] {
                    let change = transaction.object?["changes"]?.array?.first?.object
                    names.append(change?["values"]?.object?["name"]?.string ?? "")
                }
                guard let place = page["next"]?.string else { break }
                next = "&before=\(place)"
            }
            #expect(names == ["Eve", "D", "C", "B", "Ada"])
            for object in [ada, "Contact/" + (ada.split(separator: "/").last ?? "")] {
                let own = try await node.ask("GET", "/v1/history?order=newest&object=\(object)")
                #expect(own["transactions"]?.array?.count == 2, "\(own.text)")
            }
            for wrong in [
                "order=oldest", "before=5", "order=newest&after=x", "order=newest&before=x",
            ] {
                #expect(try await node.ask("GET", "/v1/history?\(wrong)").status == 400)
            }
        }
    }

    @Test("Objects are named as tables show them, and a wrong name is answered with the right one")
    func names() async throws {
        try await run { node in
            let uri = try await insert(node, "Ada")
            let short = "Contact/" + (uri.split(separator: "/").last ?? "")
            let saved = try await node.save(
                operations: #"{"update": "\#(short)", "values": {"phone": "2"}}"#)
            #expect(saved.status == 200, "\(saved.text)")
            let deleted = try await node.ask(
                "POST", "/v1/batch", #"{"delete": {"objects": ["\#(short)"]}}"#)
            #expect(deleted["count"]?.integer == 1, "\(deleted.text)")
            let entity = try await node.fetch(#"{"entity": "Contcat"}"#)
            #expect(entity.message.contains("Did you mean \"Contact\"?"), "\(entity.message)")
            let property = try await node.fetch(
                #"{"entity": "Contact", "predicate": "phnoe == '1'"}"#)
            #expect(property.message.contains("Did you mean \"phone\"?"), "\(property.message)")
            let value = try await node.save(
                operations: #"{"insert": "Contact", "values": {"nmae": "x"}}"#)
            #expect(value.message.contains("Did you mean \"name\"?"), "\(value.message)")
        }
    }
}
