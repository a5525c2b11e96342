import Coordinator
import Merge
import Node
import Testing

@Suite("/v1/conflicts")
struct ConflictContractTests {
    /// A person whose name two nodes have written concurrently.
    private func disputed(
        _ node: HTTPTestNode
    ) async throws -> (uri: String, id: String, ours: String) {
        let (uri, _) = try await node.insertPerson("Augusta")
        let seen = try node.coordinator.currentToken.versionVector
        let saved = try await node.save(
            #"{"operations": [{"update": "\#(uri)", "values": {"name": "Eve"}}], "author": "us"}"#)
        try node.applyForeignName("Amy", of: uri, seen: seen)
        let row = try #require(uri.split(separator: "/").last)
        return (uri, "Person.\(row).name", try #require(saved["transaction"]?.string))
    }

    @Test("One conflict has the shape of the contract")
    func answersAsTheContractSays() async throws {
        try await HTTPTestNode.run { node in
            let (_, id, _) = try await disputed(node)
            let answer = try await node.ask("GET", "/v1/conflicts/\(id)")
            let text = normalised(answer.text)
            let head =
                #"{"id":"Person.pROW.name","kind":"update","state":"unresolved","open":true,"#
                + #""entity":"Person","object":"x-tributary://demo/Person/pROW","#
                + #""property":"name","policy":"error","sides":["#
            #expect(text.hasPrefix(head), "\(text)")
            let theirs =
                #"{"dot":"DOT-1","node":2,"author":"elsewhere","context":null,"#
                + #""timestamp":{TIME},"value":"Amy","visible":true}"#
            let ours =
                #"{"dot":"DOT-2","node":1,"author":"us","context":null,"#
                + #""timestamp":{TIME},"value":"Eve","visible":false}"#
            #expect(text.contains("\"sides\":[\(theirs),\(ours)]"), "\(text)")
            #expect(
                text.contains(
                    #""base":{"dot":"DOT-1","value":"Augusta"},"reason":{"rule":"earliest","text":"#
                ), "\(text)")
            #expect(text.contains(#""closedBy":null,"decision":null,"short":""#), "\(text)")
        }
    }

    @Test("The list filters by state, entity, object, kind and whether it is open")
    func lists() async throws {
        try await HTTPTestNode.run { node in
            let (uri, id, _) = try await disputed(node)
            for query in [
                "", "?state=unresolved", "?entity=Person&kind=update&open=true&limit=5",
                "?object=\(uri)", "?state=all",
            ] {
                let answer = try await node.ask("GET", "/v1/conflicts\(query)")
                #expect(answer["conflicts"]?.array?.count == 1, "\(query)")
                #expect(answer["conflicts.0.id"] == .string(id))
                #expect(answer["conflicts.0.base.value"] == .string("Augusta"))
            }
            for query in ["?state=settled", "?kind=delete", "?entity=Note", "?open=false"] {
                let answer = try await node.ask("GET", "/v1/conflicts\(query)")
                #expect(answer["conflicts"] == .array([]), "\(query)")
            }
            for query in [
                "?state=x", "?kind=x", "?entity=x", "?open=x", "?object=x", "?limit=0", "?x=1",
                "?after=x", "?after=+1",
            ] {
                let answer = try await node.ask("GET", "/v1/conflicts\(query)")
                #expect(answer.status == 400, "\(query)")
            }
            let status = try await node.ask("GET", "/v1/status")
            #expect(status["conflicts.unresolved.update"] == .integer(1))
        }
    }

    @Test("A list goes on where the one before ended")
    func pages() async throws {
        try await HTTPTestNode.run { node in
            var people: [String] = []
            for number in 1...5 { people.append(try await node.insertPerson("P\(number)").uri) }
            let seen = try node.coordinator.currentToken.versionVector
            for (number, person) in people.enumerated() {
                _ = try await node.save(
                    operations: #"{"update": "\#(person)", "values": {"name": "us"}}"#)
                try node.applyForeignName("them", of: person, seen: seen, node: number + 2)
            }
            var listed: [String] = []
            var next = ""
            for count in [2, 2, 1] {
                let answer = try await node.ask("GET", "/v1/conflicts?limit=2\(next)")
                let page = try #require(answer["conflicts"]?.array)
                #expect(page.count == count)
                listed += page.compactMap { $0.object?["object"]?.string }
                next = answer["next"]?.string.map { "&after=\($0)" } ?? ""
                #expect(next.isEmpty == (count == 1))
            }
            #expect(listed == people.reversed())
        }
    }

    @Test("So many bytes end a list, which goes on after them")
    func largePages() async throws {
        try await HTTPTestNode.run { node in
            var people: [String] = []
            for number in 1...4 { people.append(try await node.insertPerson("P\(number)").uri) }
            let seen = try node.coordinator.currentToken.versionVector
            let long = String(repeating: "x", count: 3 << 20)
            for (number, person) in people.enumerated() {
                _ = try await node.save(
                    operations: #"{"update": "\#(person)", "values": {"name": "us"}}"#)
                try node.applyForeignName(long, of: person, seen: seen, node: number + 2)
            }
            let first = try await node.ask("GET", "/v1/conflicts")
            #expect(first["conflicts"]?.array?.count == 3)
            let next = try #require(first["next"]?.string)
            let rest = try await node.ask("GET", "/v1/conflicts?after=\(next)")
            #expect(rest["conflicts"]?.array?.count == 1)
            #expect(rest["next"] == .null)
        }
    }

    /// Pets that must have a keeper, and of whom a keeper may have one.
    private static let pets = """
        {"entities": [
          {"name": "Person", "attributes": [{"name": "name", "type": "string"}],
           "relationships": [{"name": "pets", "destination": "Pet", "inverse": "keeper",
             "toMany": true, "maxCount": 1}]},
          {"name": "Pet", "relationships": [{"name": "keeper", "destination": "Person",
             "inverse": "pets", "optional": false}]}]}
        """

    @Test("A violation of the model's validation is reported")
    func violations() async throws {
        try await HTTPTestNode.run(model: Self.pets) { node in
            var people: [String] = []
            for name in ["Ada", "Eve"] { people.append(try await node.insertPerson(name).uri) }
            let rows = try people.map { try #require(ObjectURI($0)?.row) }
            let seen = try node.coordinator.currentToken.versionVector
            for (number, uri) in people.enumerated() {
                let pet = #""insert": "Pet", "id": "@\#(number)", "values": {"keeper": "\#(uri)"}"#
                let saved = try await node.save(operations: #"{\#(pet)}"#)
                #expect(saved.status == 200, "\(saved.text)")
            }
            // Elsewhere one was deleted, and the other got a pet as well.
            try node.apply(
                seen: seen,
                [
                    ChangeShape(entity: "Person", assigned: []),
                    ChangeShape(entity: "Pet", assigned: ["keeper"]),
                ],
                [
                    Change(kind: .delete, shape: 0, row: rows[0], values: []),
                    Change(
                        kind: .insert, shape: 1, row: RowID(rows[0].rawValue + 1 << 48),
                        values: [.reference(rows[1])]),
                ])
            let gone = try await node.ask("GET", "/v1/conflicts?kind=dangling")
            #expect(
                gone["conflicts.0.violation"] == .string("missingMandatoryProperty"),
                "\(gone.text)")
            for rule in ["missingMandatoryProperty", "relationshipExceedsMaximumCount"] {
                let found = try await node.ask("GET", "/v1/conflicts?violation=\(rule)&limit=1")
                #expect(found["conflicts.0.violation"] == .string(rule), "\(found.text)")
            }
            let none = try await node.ask(
                "GET", "/v1/conflicts?violation=relationshipLacksMinimumCount")
            #expect(none["conflicts"] == .array([]))
            #expect(try await node.ask("GET", "/v1/conflicts?violation=x").status == 400)
            let many = try await node.ask("GET", "/v1/conflicts?kind=count")
            let id = "Person.\(rows[1]).pets.count"
            #expect(many["conflicts.0.id"] == .string(id), "\(many.text)")
            #expect(many["conflicts.0.reason.rule"] == .string("memberCount"))
            let one = try await node.ask("GET", "/v1/conflicts/\(id)")
            #expect(one["violation"] == .string("relationshipExceedsMaximumCount"))
            #expect(one["sides"] == .array([]) && one["property"] == .string("pets"))
            let answer = try await node.ask(
                "POST", "/v1/conflicts/\(id)/resolution", #"{"delete": true, "sides": []}"#)
            #expect(answer.status == 422, "\(answer.text)")
        }
    }

    @Test("A side that took a link away has no value; one that made it names the object")
    func links() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let (bob, _) = try await node.insertPerson("Bob")
            let change = { (key: String) in
                #"{"operations": [{"update": "\#(ada)", "\#(key)": {"friends": ["\#(bob)"]}}]}"#
            }
            #expect(try await node.save(change("add")).status == 200)
            let seen = try node.coordinator.currentToken.versionVector
            let logged = try node.coordinator.read { try $0.history(afterPosition: 2, limit: 1) }
            let made = try #require(logged.first).encoded.transaction
            #expect(try await node.save(change("remove")).status == 200)
            // Elsewhere the link was added again meanwhile.
            try node.apply(seen: seen, made.shapes, made.changes)
            let answer = try await node.ask("GET", "/v1/conflicts?kind=link")
            let sides = (answer["conflicts.0.sides"]?.array ?? []).compactMap(\.object)
            #expect(sides.count == 2, "\(answer.text)")
            let gone = sides.filter { $0["deleted"] == .boolean(true) }
            let values = gone.compactMap { $0["value"] }
            #expect(values == [JSONValue.null], "\(answer.text)")
            let still = sides.first { $0["deleted"] == nil }
            let target = try #require(still?["value"]?.string)
            #expect([ada, bob].contains(target))
        }
    }

    @Test("A save over an unresolved conflict is 409, unless it says that it resolves")
    func protectsUnresolvedConflicts() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _, _) = try await disputed(node)
            let change = #""update": "\#(uri)", "values": {"name": "Joy"}"#
            let refused = try await node.save(operations: #"{\#(change)}"#)
            #expect(refused.status == 409 && refused.code == "unresolvedConflict")
            #expect(refused["error.conflicts.0.object"] == .string(uri))
            let done = try await node.save(
                operations: #"{\#(change), "resolves": true}"#)
            #expect(done.status == 200, "\(done.text)")
        }
    }

    @Test("A resolution by side answers as a save does, and closes the conflict")
    func resolvesBySide() async throws {
        try await HTTPTestNode.run { node in
            let (uri, id, ours) = try await disputed(node)
            let path = "/v1/conflicts/\(id)/resolution"
            let changed = try await node.ask(
                "POST", path, #"{"side": "\#(ours)", "sides": ["\#(ours)"]}"#)
            #expect(changed.status == 409 && changed.code == "sidesChanged")
            let conflict = try await node.ask("GET", "/v1/conflicts/\(id)")
            let sides = (conflict["sides"]?.array ?? []).compactMap {
                $0.object?["dot"]?.string.map { "\"\($0)\"" }
            }
            let answer = try await node.ask(
                "POST", path,
                #"{"side": "\#(ours)", "sides": [\#(sides.joined(separator: ","))]}"#)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(
                answer.json.object?.members.map(\.key)
                    == ["transaction", "timestamp", "seen", "token", "ids", "conflicts"])
            let object = try await node.ask(
                "GET", uri.replacing("x-tributary://demo/", with: "/v1/objects/"))
            #expect(object["values.name"] == .string("Eve"))
            #expect(object["conflicted"] == .boolean(false))
            #expect(try await node.ask("GET", "/v1/conflicts/\(id)").status == 404)
            let closed = try await node.ask("GET", "/v1/conflicts?state=resolved&open=false")
            let name = try #require(closed["conflicts.0.id"]?.string)
            #expect(name.hasPrefix(id + "@"))
            #expect(closed["conflicts.0.closedBy"] == answer["transaction"])
            let undone = try await node.ask("POST", "/v1/conflicts/\(name)/undo")
            #expect(undone.status == 200, "\(undone.text)")
        }
    }

    @Test("Resolutions by values, by policy and by deletion")
    func resolvesOtherwise() async throws {
        for body in [
            #"{"values": {"name": "Joy"}}"#, #"{"policy": "overwrite", "author": "me"}"#,
            #"{"delete": true}"#,
        ] {
            try await HTTPTestNode.run { node in
                let (_, id, _) = try await disputed(node)
                let answer = try await node.ask("POST", "/v1/conflicts/\(id)/resolution", body)
                #expect(answer.status == 200, "\(body): \(answer.text)")
                let open = try await node.ask("GET", "/v1/conflicts?open=true")
                #expect(open["conflicts"] == .array([]), "\(body)")
            }
        }
    }

    @Test("Resolutions that make no sense are refused")
    func refusesNonsense() async throws {
        try await HTTPTestNode.run { node in
            let (_, id, _) = try await disputed(node)
            let path = "/v1/conflicts/\(id)/resolution"
            for (body, status) in [
                (#"{}"#, 400), (#"{"side": "x"}"#, 400), (#"{"policy": "x"}"#, 400),
                (#"{"policy": "error"}"#, 400), (#"{"delete": false}"#, 400),
                (#"{"values": 1}"#, 400), (#"{"values": {"x": 1}}"#, 400),
                (#"{"values": {"name": 1}}"#, 422), (#"{"change": {"x": {}}}"#, 400),
                (#"{"side": "1.5e0c0000000000-1"}"#, 409),
                (#"{"delete": true, "sides": ["x"]}"#, 400), (#"{"delete": true, "x": 1}"#, 400),
            ] {
                let answer = try await node.ask("POST", path, body)
                #expect(answer.status == status, "\(body): \(answer.text)")
            }
            for lost in ["x", "Person.p1.name", "Nobody.p1.name"] {
                let answer = try await node.ask("GET", "/v1/conflicts/\(lost)")
                #expect(answer.status == 404 && answer.code == "conflictNotFound", "\(lost)")
            }
            #expect(
                try await node.ask(
                    "POST", "/v1/conflicts/Person.p1.name/undo", "{}"
                ).status == 404)
        }
    }
}
