import Coordinator
import Merge
import Node
import Synchronization
import Testing

/// What a resolution must settle, and whose it may be.
@Suite("POST /v1/conflicts/{id}/resolution")
struct ResolutionContractTests {
    private static let model = """
        {"entities": [
          {"name": "Person",
           "attributes": [
             {"name": "a", "type": "string"}, {"name": "b", "type": "string"}],
           "relationships": [
             {"name": "manager", "destination": "Person", "inverse": "reports"},
             {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true},
             {"name": "friends", "destination": "Person", "inverse": "friends", "toMany": true}]},
          {"name": "User",
           "attributes": [
             {"name": "mail", "type": "string"}, {"name": "nick", "type": "string"}],
           "relationships": [
             {"name": "tags", "destination": "Tag", "inverse": "users", "toMany": true}],
           "uniquenessConstraints": [["mail"]]},
          {"name": "Tag", "attributes": [{"name": "name", "type": "string"}],
           "relationships": [
             {"name": "users", "destination": "User", "inverse": "tags", "toMany": true}]}]}
        """

    private func run(_ body: (HTTPTestNode) async throws -> Void) async throws {
        try await HTTPTestNode.run(model: Self.model, body)
    }

    private func insert(
        _ node: HTTPTestNode, _ operations: String...
    ) async throws -> [String: String] {
        let answer = try await node.save(
            #"{"operations": [\#(operations.joined(separator: ", "))]}"#)
        guard answer.status == 200 else { throw HTTPTestNode.Unexpected(answer.text) }
        var ids: [String: String] = [:]
        for member in answer["ids"]?.object?.members ?? [] { ids[member.key] = member.value.string }
        return ids
    }

    private func row(_ uri: String?) throws -> RowID {
        let uri = try #require(uri.flatMap { ObjectURI($0) })
        return uri.row
    }

    private func open(_ node: HTTPTestNode) async throws -> [String] {
        let answer = try await node.ask("GET", "/v1/conflicts?open=true")
        return (answer["conflicts"]?.array ?? []).compactMap { $0.object?["id"]?.string }
    }

    /// People of whom one has a dispute over `a`, and another one over `a` as well.
    private func disputed(_ node: HTTPTestNode) async throws -> [String] {
        var people: [String] = []
        for name in ["one", "two"] {
            let ids = try await insert(
                node, #"{"insert": "Person", "id": "@p", "values": {"a": "\#(name)"}}"#)
            people.append(try #require(ids["@p"]))
        }
        let seen = try node.coordinator.currentToken.versionVector
        for uri in people {
            let saved = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"a": "ours"}}"#)
            #expect(saved.status == 200)
        }
        try node.apply(
            seen: seen, [ChangeShape(entity: "Person", assigned: ["a"])],
            try people.map {
                Change(kind: .update, shape: 0, row: try row($0), values: [.string("theirs")])
            })
        return people
    }

    @Test("Values that do not settle the conflict are refused, and nothing is saved")
    func valuesSettle() async throws {
        try await run { node in
            let people = try await disputed(node)
            let before = try await open(node)
            #expect(before.count == 2)
            let id = "Person.\(try row(people[0])).a"
            let position = try node.coordinator.currentToken.position
            for body in [#"{"values": {}}"#, #"{"values": {"b": "other"}}"#] {
                let answer = try await node.ask("POST", "/v1/conflicts/\(id)/resolution", body)
                #expect(answer.status == 400 && answer.code == "malformed", "\(answer.text)")
                #expect(answer.message.contains(" a,"), "\(answer.message)")
            }
            #expect(try node.coordinator.currentToken.position == position)
            let answer = try await node.ask(
                "POST", "/v1/conflicts/\(id)/resolution", #"{"values": {"a": "mine", "b": "x"}}"#)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(try await open(node) == before.filter { $0 != id })
            // By way of the node, which counts what failed as well, and so what is to be undone.
            #expect(node.backend.savings.withLock { $0 } == 3)
            _ = try await node.ask("POST", "/v1/conflicts/\(before[1])/undo", "{}")
            #expect(node.backend.savings.withLock { $0 } == 4)
        }
    }

    @Test("Values decide over a delete, but not over a link")
    func valuesOfOtherKinds() async throws {
        try await run { node in
            let ids = try await insert(
                node, #"{"insert": "Person", "id": "@p", "values": {"a": "x"}}"#,
                #"{"insert": "Person", "id": "@q", "values": {"a": "y"}, "#
                    + #""add": {"friends": ["@p"]}}"#)
            let (one, two) = (try #require(ids["@p"]), try #require(ids["@q"]))
            let seen = try node.coordinator.currentToken.versionVector
            let made = try #require(
                try node.coordinator.read { try $0.history(afterPosition: 0, limit: 1) }.first
            ).encoded.transaction
            for change in [
                #""update": "\#(one)", "values": {"b": "ours"}"#,
                #""update": "\#(one)", "remove": {"friends": ["\#(two)"]}"#,
            ] {
                #expect(try await node.save(operations: #"{\#(change)}"#).status == 200)
            }
            // Elsewhere the link was made again.
            let links = made.changes.filter { $0.kind != .insert }
            #expect(!links.isEmpty)
            try node.apply(seen: seen, made.shapes, links)
            let link = try #require(try await open(node).first)
            let refused = try await node.ask(
                "POST", "/v1/conflicts/\(link)/resolution", #"{"values": {"a": "z"}}"#)
            #expect(refused.status == 404 && refused.code == "conflictNotFound", "\(refused.text)")
            #expect(refused.message.contains("values"))
            // And later the object was deleted.
            try node.apply(
                seen: seen, [ChangeShape(entity: "Person", assigned: [])],
                [Change(kind: .delete, shape: 0, row: try row(one), values: [])], sequence: 2)
            let delete = "Person.\(try row(one)).object"
            #expect(try await open(node).contains(delete))
            let path = "/v1/conflicts/\(delete)/resolution"
            #expect(try await node.ask("POST", path, #"{"values": {}}"#).status == 400)
            let kept = try await node.ask("POST", path, #"{"values": {"b": "kept"}}"#)
            #expect(kept.status == 200, "\(kept.text)")
            #expect(try await !open(node).contains(delete))
        }
    }

    @Test("Only a conflict over a unique key is resolved by changes of objects")
    func changesOfOtherKinds() async throws {
        try await run { node in
            let people = try await disputed(node)
            let before = try await open(node)
            let id = "Person.\(try row(people[0])).a"
            for uri in people {
                let answer = try await node.ask(
                    "POST", "/v1/conflicts/\(id)/resolution",
                    #"{"change": {"\#(uri)": {"a": "mine"}}}"#)
                #expect(answer.status == 404 && answer.code == "conflictNotFound", "\(answer.text)")
                #expect(answer.message.contains("unique"), "\(answer.message)")
            }
            #expect(try await open(node) == before)
        }
    }

    /// Two users of one mail, of whom another node has inserted one or both in one save.
    private func duplicates(
        _ node: HTTPTestNode, isOneSave: Bool
    ) async throws -> (id: String, users: [String]) {
        let seen = try node.coordinator.currentToken.versionVector
        let shapes = [ChangeShape(entity: "User", assigned: ["mail", "nick"])]
        func user(_ number: Int64) -> Change {
            Change(
                kind: .insert, shape: 0, row: RowID(1 << 48 + number),
                values: [.string("m"), .string("n\(number)")])
        }
        if isOneSave {
            try node.apply(seen: seen, shapes, [user(1), user(2)])
        } else {
            try node.apply(seen: seen, shapes, [user(1)])
            let saved = try await node.save(
                operations: #"{"insert": "Tag", "values": {"name": "t"}}"#)
            #expect(saved.status == 200)
            try node.apply(seen: seen, shapes, [user(2)], sequence: 2)
        }
        let id = try #require(try await open(node).first)
        let conflict = try await node.ask("GET", "/v1/conflicts/\(id)")
        let users = (conflict["sides"]?.array ?? []).compactMap {
            $0.object?["value"]?.object?["object"]?.string
        }
        #expect(users.count == 2, "\(conflict.text)")
        return (id, users)
    }

    @Test("A resolution of one key changes a key, of objects that have it")
    func changesOfKeys() async throws {
        try await run { node in
            let (id, users) = try await duplicates(node, isOneSave: true)
            let path = "/v1/conflicts/\(id)/resolution"
            let tag = try await insert(node, #"{"insert": "Tag", "id": "@t"}"#)["@t"] ?? ""
            let other =
                try await insert(
                    node, #"{"insert": "User", "id": "@u", "values": {"mail": "o"}}"#)["@u"] ?? ""
            for (body, status) in [
                (#"{"values": {"nick": "x"}}"#, 400), (#"{"values": {"mail": "m"}}"#, 400),
                (#"{"values": {}}"#, 400), (#"{"change": {}}"#, 400),
                (#"{"change": {"\#(users[1])": {"nick": "x"}}}"#, 400),
                (#"{"change": {"\#(other)": {"mail": "x"}}}"#, 409),
                (#"{"change": {"\#(users[1])": {"mail": "x"}, "\#(tag)": {"name": "x"}}}"#, 409),
            ] {
                let answer = try await node.ask("POST", path, body)
                #expect(answer.status == status, "\(body): \(answer.text)")
                #expect(!answer.message.isEmpty)
            }
            #expect(try await open(node) == [id])
            let answer = try await node.ask(
                "POST", path, #"{"change": {"\#(users[1])": {"mail": "x", "nick": "y"}}}"#)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(try await open(node).isEmpty)
        }
    }

    @Test("Of several sides that one save wrote the object says which is kept", arguments: [0, 1])
    func sidesOfOneSave(_ kept: Int) async throws {
        try await run { node in
            let (id, users) = try await duplicates(node, isOneSave: true)
            let conflict = try await node.ask("GET", "/v1/conflicts/\(id)")
            let dot = try #require(conflict["sides.0.dot"]?.string)
            #expect(conflict["sides.1.dot"]?.string == dot)
            let path = "/v1/conflicts/\(id)/resolution"
            let refused = try await node.ask("POST", path, #"{"side": "\#(dot)"}"#)
            #expect(refused.status == 409 && refused.code == "sideAmbiguous", "\(refused.text)")
            for user in users {
                let name = user.replacing("x-tributary://demo/", with: "")
                #expect(refused.message.contains(name), "\(refused.message)")
            }
            for body in [
                #"{"policy": "overwrite", "object": "\#(users[0])"}"#,
                #"{"side": "\#(dot)", "object": "x"}"#,
            ] {
                #expect(try await node.ask("POST", path, body).status == 400, "\(body)")
            }
            let lost = try await node.ask(
                "POST", path, #"{"side": "\#(dot)", "object": "x-tributary://demo/User/p7"}"#)
            #expect(lost.status == 409 && lost.code == "sidesChanged", "\(lost.text)")
            let answer = try await node.ask(
                "POST", path, #"{"side": "\#(dot)", "object": "\#(users[kept])"}"#)
            #expect(answer.status == 200, "\(answer.text)")
            let left = try await node.fetch(#"{"entity": "User", "resultType": "ids"}"#)
            #expect(left["ids"] == .array([.string(users[kept])]), "\(left.text)")
            #expect(try await open(node).isEmpty)
        }
    }

    @Test("The object kept gets the many-to-many links of those that go", arguments: [0, 1])
    func linksGoOver(_ kept: Int) async throws {
        try await run { node in
            let (id, users) = try await duplicates(node, isOneSave: false)
            let shown = try row(users[0])
            let hidden = try row(users[1])
            var tags: [String] = []
            for name in ["x", "y", "z"] {
                let ids = try await insert(
                    node, #"{"insert": "Tag", "id": "@t", "values": {"name": "\#(name)"}}"#)
                tags.append(try #require(ids["@t"]))
            }
            // Each has one of its own, and both have the last.
            let request = { (row: RowID, tags: [String]) throws -> SaveRequest in
                let user = try #require(node.coordinator.model.entity(named: "User"))
                return SaveRequest(operations: [
                    SaveOperation(
                        kind: .update, entity: user, row: row,
                        relationships: [
                            RelationshipOperation(
                                name: "tags", kind: .add,
                                members: try tags.map { try self.row($0) })
                        ])
                ])
            }
            _ =
                try await node.coordinator.save(try request(shown, [tags[0], tags[2]]))
                as SaveResult
            _ =
                try await node.coordinator.save(try request(hidden, [tags[1], tags[2]]))
                as SaveResult
            let conflict = try await node.ask("GET", "/v1/conflicts/\(id)")
            let dot = try #require(conflict["sides.\(kept).dot"]?.string)
            let answer = try await node.ask(
                "POST", "/v1/conflicts/\(id)/resolution", #"{"side": "\#(dot)"}"#)
            #expect(answer.status == 200, "\(answer.text)")
            let left = try await node.fetch(#"{"entity": "User", "properties": ["tags"]}"#)
            #expect(left["objects"]?.array?.count == 1)
            #expect(left["objects.0.id"] == .string(users[kept]))
            let found = (left["objects.0.values.tags"]?.array ?? []).compactMap(\.string)
            #expect(Set(found) == Set(tags), "\(left.text)")
            #expect(try node.coordinator.verify().isOK)
        }
    }

    @Test("What cannot be undone says so")
    func undoing() async throws {
        try await run { node in
            let (id, users) = try await duplicates(node, isOneSave: true)
            let key = try await node.ask("POST", "/v1/conflicts/\(id)/undo")
            #expect(key.status == 404 && key.code == "cannotBeUndone", "\(key.text)")
            #expect(key.message.contains("cannot be undone"))
            #expect(!users.isEmpty)
            let none = try await node.ask("POST", "/v1/conflicts/Person.p1.a/undo")
            #expect(none.status == 404 && none.code == "conflictNotFound", "\(none.text)")
        }
    }

    @Test("A save over unresolved conflicts reports only those that it writes over")
    func namesWhatIsWritten() async throws {
        try await run { node in
            let ids = try await insert(
                node, #"{"insert": "Person", "id": "@p", "values": {"a": "x", "b": "y"}}"#)
            let uri = try #require(ids["@p"])
            let seen = try node.coordinator.currentToken.versionVector
            let saved = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"a": "1", "b": "1"}}"#)
            #expect(saved.status == 200)
            try node.apply(
                seen: seen, [ChangeShape(entity: "Person", assigned: ["a", "b"])],
                [
                    Change(
                        kind: .update, shape: 0, row: try row(uri),
                        values: [.string("2"), .string("2")])
                ])
            #expect(try await open(node).count == 2)
            let answer = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"b": "3"}}"#)
            #expect(answer.status == 409 && answer.code == "unresolvedConflict")
            #expect(
                answer["error.conflicts.0.properties"] == .array([.string("b")]), "\(answer.text)")
        }
    }

    @Test("A list of one object's conflicts has none of another entity's of the same number")
    func listsByObject() async throws {
        try await run { node in
            let people = try await disputed(node)
            let other = people[0].replacing("/Person/", with: "/Tag/")
            let none = try await node.ask("GET", "/v1/conflicts?object=\(other)")
            #expect(none.status == 200 && none["conflicts"] == .array([]), "\(none.text)")
            let one = try await node.ask("GET", "/v1/conflicts?object=\(people[0])")
            #expect(one["conflicts"]?.array?.count == 1)
        }
    }
}
