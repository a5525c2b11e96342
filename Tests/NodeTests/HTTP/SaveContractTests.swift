import Coordinator
import Dispatch
import Merge
import Node
import Simulation
import Synchronization
import TestSupport
import Testing

@Suite("POST /v1/save")
struct SaveContractTests {
    @Test("A save answers transaction, timestamp, seen, token, ids and conflicts")
    func answersAsTheContractSays() async throws {
        try await HTTPTestNode.run { node in
            let answer = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@ada", "values": {"name": "Ada", "manager": "@bob"}},
                  {"insert": "Person", "id": "@bob", "values": {"name": "Bob", "manager": "@ada"}}],
                 "saveID": "s1", "author": "import", "context": "nightly"}
                """)
            #expect(answer.status == 200)
            #expect(
                normalised(answer.text)
                    == #"{"transaction":"DOT-1","timestamp":{TIME},"seen":{},"token":"TOKEN","#
                    + #""ids":{"@ada":"x-tributary://demo/Person/pROW","#
                    + #""@bob":"x-tributary://demo/Person/pROW"},"conflicts":[]}"#)
            let again = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@ada", "values": {"name": "Ada", "manager": "@bob"}},
                  {"insert": "Person", "id": "@bob", "values": {"name": "Bob", "manager": "@ada"}}],
                 "saveID": "s1"}
                """)
            #expect(again.text == answer.text)
            let kept = try await node.ask("GET", "/v1/saves/s1")
            #expect(kept["outcome"]?.string == "saved")
            #expect(kept["transaction"] == answer["transaction"])
            #expect(kept["token"] == answer["token"])
            let other = try await node.ask("GET", "/v1/saves/never")
            #expect(other.status == 200 && other.text == #"{"outcome":"notSaved"}"#)
        }
    }

    @Test("More than 20,000 operations need \"bulk\": true")
    func bulk() async throws {
        try await HTTPTestNode.run { node in
            let inserts = [String](repeating: #"{"insert":"Circle"}"#, count: 20_001)
            let operations = #""operations":[\#(inserts.joined(separator: ","))]"#
            let refused = try await node.save("{\(operations)}")
            #expect(refused.status == 400 && refused.code == "limitExceeded")
            #expect(refused.text.contains("20001") && refused.text.contains("--bulk"))
            let wrong = try await node.save(#"{"operations":[],"bulk":1}"#)
            #expect(wrong.status == 400 && wrong.code == "malformed")
            let saved = try await node.save(#"{\#(operations),"bulk":true}"#)
            #expect(saved.status == 200 && saved["transaction"]?.string != nil)
        }
    }

    @Test("Values of every type come back exactly")
    func keepsValues() async throws {
        try await HTTPTestNode.run { node in
            let values =
                #""age":9223372036854775807,"small":-32768,"ratio":0.1,"price":"1.5","#
                + #""born":"2026-01-31T12:00:00.000Z","photo":"AQID","#
                + #""token":"123E4567-E89B-12D3-A456-426614174000","site":"http://a/b","#
                + #""active":true"#
            let (uri, version) = try await node.insertPerson("Ada", values)
            let path = uri.replacing("x-tributary://demo/", with: "/v1/objects/")
            let answer = try await node.ask("GET", path)
            #expect(answer.status == 200)
            #expect(
                answer.text.hasPrefix(
                    #"{"id":"\#(uri)","entity":"Person","version":"\#(version)","#
                        + #""conflicted":false,"values":{"active":true,"#
                        + #""age":9223372036854775807,"born":"2026-01-31T12:00:00.000Z","#
                        + #""manager":null,"name":"Ada","#))
            for part in values.split(separator: ",\"") {
                #expect(answer.text.contains(part.hasPrefix("\"") ? part : "\"" + part))
            }
            #expect(answer["values.reports"]?.array == [])
            #expect(answer["values.mood"] == nil)
            let odd = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"ratio": "-Infinity"}}"#)
            #expect(odd.status == 200)
            let read = try await node.ask("GET", path)
            #expect(read["values.ratio"] == .string("-Infinity"))
        }
    }

    @Test("To-manys and the far side of a one-to-one can be assigned, added to and removed from")
    func changesRelationships() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let (bob, _) = try await node.insertPerson("Bob")
            let first = try await node.save(
                """
                {"operations": [
                  {"insert": "Pass", "id": "@pass", "values": {"number": "7"}},
                  {"update": "\(ada)", "values": {"reports": ["\(bob)"], "pass": "@pass"},
                   "add": {"friends": ["\(bob)"]}}]}
                """)
            #expect(first.status == 200, "\(first.text)")
            let fetched = try await node.fetch(
                #"{"entity": "Person", "predicate": "name == 'Ada'", "prefetch": ["pass"]}"#)
            #expect(fetched["objects.0.values.reports"] == .array([.string(bob)]))
            #expect(fetched["objects.0.values.friends"] == .array([.string(bob)]))
            let pass = try #require(first["ids.@pass"]?.string)
            #expect(fetched["objects.0.values.pass"] == .string(pass))
            #expect(fetched["prefetched"]?.object?.members.map(\.key) == [pass])
            let second = try await node.save(
                """
                {"operations": [{"update": "\(ada)", "values": {"reports": [], "pass": null},
                  "remove": {"friends": ["\(bob)"]}}]}
                """)
            #expect(second.status == 200, "\(second.text)")
            let after = try await node.fetch(#"{"entity": "Person", "sort": ["name"]}"#)
            #expect(after["objects.0.values.reports"] == .array([]))
            #expect(after["objects.0.values.friends"] == .array([]))
            #expect(after["objects.0.values.pass"] == .null)
        }
    }

    @Test(
        "What makes no sense is 400 malformed, with the place",
        arguments: [
            (#"not json"#, "line 1"), (#"[]"#, "The body"), (#"{}"#, "operations"),
            (#"{"operations": 1}"#, "operations"), (#"{"operations": [1]}"#, "operations[0]"),
            (#"{"operations": [{}]}"#, "operations[0]"),
            (#"{"operations": [{"insert": "Nobody"}]}"#, "Nobody"),
            (#"{"operations": [{"insert": 1}]}"#, "operations[0].insert"),
            (#"{"operations": [{"insert": "Shape"}]}"#, "abstract"),
            (#"{"operations": [], "extra": 1}"#, "extra"),
            (#"{"operations": [], "operations": []}"#, "twice"),
            (#"{"operations": [{"insert": "Person", "x": 1}]}"#, "operations[0].x"),
            (#"{"operations": [{"insert": "Person", "values": {"x": 1}}]}"#, "\"x\""),
            (#"{"operations": [{"insert": "Person", "values": {"mood": "x"}}]}"#, "mood"),
            (#"{"operations": [{"insert": "Person", "id": "ada"}]}"#, "operations[0].id"),
            (#"{"operations": [{"insert": "Person", "delete": "x"}]}"#, "one of"),
            (#"{"operations": [{"update": "nowhere"}]}"#, "operations[0].update"),
            (#"{"operations": [{"delete": "x-tributary://demo/Nobody/p1"}]}"#, "Nobody"),
            (
                #"{"operations": [{"delete": "x-tributary://demo/Person/p1", "version": "x"}]}"#,
                "operations[0].version"
            ),
            (
                #"{"operations": [{"update": "x-tributary://demo/Person/p1","#
                    + #" "version": "1.a-18446744073709551615"}]}"#,
                "operations[0].version"
            ),
            (#"{"operations": [], "mergePolicy": "never"}"#, "mergePolicy"),
            (#"{"operations": [], "acknowledgement": 0}"#, "acknowledgement"),
            (#"{"operations": [], "timeoutSeconds": -1}"#, "timeoutSeconds"),
            (#"{"operations": [{"insert": "Person", "values": {"ratio": 1e400}}]}"#, "line 1"),
            (#"{"operations": [{"insert": "Person", "values": {"name": "\ud800"}}]}"#, "line 1"),
            (#"{"operations": [], "saveID": ""}"#, "1 to 200"),
        ])
    func refusesNonsense(body: String, place: String) async throws {
        try await HTTPTestNode.run { node in
            let answer = try await node.save(body)
            #expect(answer.status == 400, "\(body): \(answer.text)")
            #expect(answer.code == "malformed")
            #expect(answer.message.contains(place), "\(answer.message)")
            #expect(try node.coordinator.currentToken.position == 0)
        }
    }

    @Test("Deep nesting and a body over the limit are refused, and the connection goes on")
    func refusesHostileBodies() async throws {
        try await HTTPTestNode.run { node in
            let deep = try await node.save(String(repeating: "[", count: 100_000))
            #expect(deep.status == 400 && deep.code == "malformed")
            let large = try await node.save(String(repeating: " ", count: 17 << 20))
            #expect(large.status == 413 && large.code == "bodyTooLarge")
            let huge = try await node.ask(
                "POST", "/v1/save", "", headers: [("Expect", "100-continue")])
            #expect(huge.status == 400)
            #expect(try await node.ask("GET", "/healthz").status == 200)
        }
    }

    @Test("All values that do not fit are reported at once, as 422 validationFailed")
    func collectsFailures() async throws {
        try await HTTPTestNode.run { node in
            let answer = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@a", "values": {"name": 1, "age": "x", "small": 40000,
                   "manager": "@nobody", "pass": "x-tributary://demo/Person/p5",
                   "reports": ["x-tributary://other/Person/p5"], "friends": "x"}}]}
                """)
            #expect(answer.status == 422 && answer.code == "validationFailed")
            let failures = answer["error.failures"]?.array ?? []
            #expect(
                failures.compactMap { $0.object?["property"]?.string }
                    == ["name", "age", "small", "manager", "pass", "reports", "friends"])
            #expect(failures.allSatisfy { $0.object?["object"]?.string == "@a" })
            let missing = try await node.save(
                """
                {"operations": [{"insert": "Person", "id": "@a", "values": {"age": 1}},
                  {"insert": "Person", "values": {"name": "\(String(repeating: "x", count: 21))"}}]}
                """)
            #expect(missing.status == 422)
            #expect(missing["error.failures.0.object"] == .string("@a"))
            #expect(missing["error.failures.0.code"] == .integer(1570))
            #expect(missing["error.failures.1.object"] == .string("operations[1]"))
            let dangling = try await node.save(
                operations: #"{"update": "@x", "values": {}}"#)
            #expect(dangling.status == 422)
        }
    }

    @Test("A stale version is 409 mergeConflict with snapshots, and settled by a policy")
    func tellsMergeConflicts() async throws {
        try await HTTPTestNode.run { node in
            let (uri, version) = try await node.insertPerson("Ada")
            let change = #"{"update": "\#(uri)", "values": {"name": "Eve"}}"#
            #expect(try await node.save(operations: change).status == 200)
            let stale = #"{"update": "\#(uri)", "values": {"name": "X"}, "version": "\#(version)"}"#
            let answer = try await node.save(operations: stale)
            #expect(answer.status == 409 && answer.code == "mergeConflict")
            #expect(answer["error.conflicts.0.object"] == .string(uri))
            #expect(answer["error.conflicts.0.property"] == .string("name"))
            #expect(answer["error.conflicts.0.oldVersion"] == .string(version))
            #expect(answer["error.conflicts.0.newVersion"]?.string?.hasSuffix("-2") == true)
            #expect(answer["error.conflicts.0.objectSnapshot.name"] == .string("Ada"))
            #expect(answer["error.conflicts.0.cachedSnapshot.name"] == .string("Eve"))
            #expect(answer["error.conflicts.0.persistedSnapshot"] == .null)
            let rolledBack = try await node.save(
                #"{"operations": [\#(stale)], "mergePolicy": "rollback"}"#)
            #expect(rolledBack.status == 200 && rolledBack["transaction"] == .null)
            let gone = #"{"delete": "\#(uri)"}"#
            #expect(try await node.save(operations: gone).status == 200)
            let deleted = try await node.save(operations: stale)
            #expect(deleted.status == 409)
            #expect(deleted["error.conflicts.0.newVersion"] == .null)
            let lost = try await node.save(operations: change)
            #expect(lost.status == 404 && lost.code == "objectNotFound")
        }
    }

    @Test("Taken keys and denied deletes are 409 with what is in the way")
    func tellsConstraintsAndDenials() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let pass = #"{"operations": [{"insert": "Pass", "values": {"number": "7"}}]}"#
            #expect(try await node.save(pass).status == 200)
            let taken = try await node.save(pass)
            #expect(taken.status == 409 && taken.code == "constraintConflict")
            #expect(taken["error.conflicts.0.property"] == .string("number"))
            // What has no identity yet goes by the name that the request gave it.
            let twice = #"{"insert": "Pass", "id": "@NAME", "values": {"number": "8"}}"#
            let both = ["one", "two"].map { twice.replacing("NAME", with: $0) }
            let doubled = try await node.save(
                #"{"operations": [\#(both.joined(separator: ", "))]}"#)
            #expect(doubled.status == 409 && doubled.code == "constraintConflict")
            #expect(doubled["error.conflicts.0.object"] == .string("@one"))
            let note =
                #"{"operations": [{"insert": "Note", "values": {"owner": "\#(ada)"}}]}"#
            #expect(try await node.save(note).status == 200)
            let denied = try await node.save(operations: #"{"delete": "\#(ada)"}"#)
            #expect(denied.status == 409 && denied.code == "deleteDenied")
            #expect(denied["error.conflicts.0.object"] == .string(ada))
            #expect(denied["error.failures.0.object"] == .string(ada))
            #expect(denied["error.failures.0.code"] == .integer(1600))
        }
    }

    @Test("A save that too few nodes confirm is 504, names them and says what was saved")
    func tellsMissingNodes() async throws {
        try await HTTPTestNode.run { node in
            let three = try HTTPTestNode.node(3)
            node.backend.missing.withLock { $0 = [three] }
            let body = #"{"operations": [{"insert": "Note", "id": "@n"}], "acknowledgement": "#
            let late = try await node.save(body + #""all", "timeoutSeconds": 1}"#)
            #expect(late.status == 504 && late.code == "acknowledgementTimeout")
            #expect(late["error.missing"] == .array([.integer(3)]))
            #expect(late["error.saved.ids.@n"]?.string != nil)
            #expect(
                normalised(late.text)
                    == #"{"error":{"code":"acknowledgementTimeout","message":"The save is on disk "#
                    + #"here, but nodes have not confirmed it in time: 3.","missing":[3],"#
                    + #""saved":{"transaction":"DOT-1","timestamp":{TIME},"seen":{},"#
                    + #""token":"TOKEN","ids":{"@n":"x-tributary://demo/Note/pROW"},"#
                    + #""conflicts":[]}}}"#)
            let local = try await node.save(body + #""local"}"#)
            #expect(local.status == 200)
            node.backend.missing.withLock { $0 = [] }
            #expect(try await node.save(body + "2}").status == 200)
        }
    }

    @Test("The ID of a save that was late elsewhere shows its outcome, and it is saved once")
    func tellsOfLateSaves() async throws {
        try await HTTPTestNode.run { node in
            let three = try HTTPTestNode.node(3)
            node.backend.missing.withLock { $0 = [three] }
            let body =
                #"{"operations": [{"insert": "Note", "id": "@n"}], "saveID": "late", "#
                + #""acknowledgement": "majority", "timeoutSeconds": 1}"#
            let late = try await node.save(body)
            #expect(late.status == 504, "\(late.text)")
            let saved = try #require(late["error.saved"]?.object)
            // The same as a 200 would have been, with the outcome in front.
            var wanted: JSONObject = ["outcome": .string("saved")]
            for member in saved.members { wanted[member.key] = member.value }
            let told = try await node.ask("GET", "/v1/saves/late")
            #expect(told.status == 200 && told.json == .object(wanted), "\(told.text)")
            // Still late, and not saved again; then no longer late.
            #expect(try await node.save(body).text == late.text)
            node.backend.missing.withLock { $0 = [] }
            let repeated = try await node.save(body)
            #expect(repeated.status == 200 && repeated.json == .object(saved))
            #expect(try node.coordinator.currentToken.position == 1)
        }
    }

    @Test("A commit that the disk failed is 500 outcomeUnknown, and so is its ID")
    func tellsUnknownOutcomes() async throws {
        let disk = SimulatedDisk(seed: 1)
        try await HTTPTestNode.run(disk: disk) { node in
            func body(_ saveID: String) -> String {
                #"{"operations": [{"insert": "Note"}], "saveID": "\#(saveID)"}"#
            }
            let first = try await node.save(body("first"))
            #expect(first.status == 200)
            disk.arm(.syncError, afterOperations: 0)
            let unknown = try await node.save(body("second"))
            #expect(unknown.status == 500 && unknown.code == "outcomeUnknown", "\(unknown.text)")
            #expect(unknown.message.hasSuffix("whether it was saved shows after a restart."))
            let outcome = try await node.ask("GET", "/v1/saves/second")
            #expect(outcome.status == 200 && outcome.text == #"{"outcome":"unknown"}"#)
            // Nor is it called "not saved" when it is tried again, whose disk works again or not.
            disk.disarm()
            let again = try await node.save(body("second"))
            #expect(again.status == 500 && again.code == "outcomeUnknown", "\(again.text)")
            // What was answered before stays as it was.
            let kept = try await node.ask("GET", "/v1/saves/first")
            #expect(kept["outcome"]?.string == "saved")
            #expect(kept["transaction"] == first["transaction"])
            #expect(try await node.save(body("first")).text == first.text)
            #expect(try await node.ask("GET", "/readyz").status == 503)
            // The node hears of its own faults, and of nothing else.
            #expect(try await node.ask("GET", "/v1/objects/Note/p1?versions=true").status == 404)
            let failures = node.backend.failures.withLock { $0 }
            #expect(failures.map(\.code) == ["outcomeUnknown", "outcomeUnknown"])
            #expect(failures.map(\.method) == ["POST", "POST"])
            #expect(failures.map(\.path) == ["/v1/save", "/v1/save"])
            #expect(failures.allSatisfy { $0.damage == nil && !$0.message.isEmpty })
        }
    }

    @Test("A save under way is reported as unknown, because it may be saved a moment later")
    func tellsOfSavesUnderWay() async throws {
        try await HTTPTestNode.run { node in
            let coordinator = node.backend.coordinator
            let entity = try #require(coordinator.model.entity(named: "Note"))
            func save(_ saveID: String) -> Task<SaveResult, any Error> {
                let insert = SaveOperation(kind: .insert, entity: entity, row: RowID(-1))
                let request = SaveRequest(operations: [insert], saveID: saveID)
                return Task { try await coordinator.save(request) }
            }
            let gate = DispatchSemaphore(value: 0)
            let isBlocked = Mutex(false)
            let observation = coordinator.observeCommits { _ in
                let isFirst = isBlocked.withLock { isBlocked in
                    defer { isBlocked = true }
                    return !isBlocked
                }
                if isFirst { gate.wait() }
            }
            defer { observation.cancel() }
            let first = save("first")
            try await eventually("the writer stands") { isBlocked.withLock(\.self) }
            let second = save("second")
            try await eventually("it waits") { coordinator.waitingSaves == 1 }
            let meanwhile = try await node.ask("GET", "/v1/saves/second")
            gate.signal()
            #expect(meanwhile.text == #"{"outcome":"unknown"}"#)
            _ = try await (first.value, second.value)
            #expect(try await node.ask("GET", "/v1/saves/second")["outcome"]?.string == "saved")
            #expect(!coordinator.isSaveUnderWay("second"))
            #expect(try await node.ask("GET", "/v1/saves/third")["outcome"]?.string == "notSaved")
        }
    }

    @Test("What was saved when there were more nodes is not told to be saved by nobody")
    func savedByMore() async throws {
        try await HTTPTestNode.run { node in
            let body = #"{"operations": [{"insert": "Note"}], "saveID": "more""#
            #expect(try await node.save(body + "}").status == 200)
            let again = try await node.save(body + #", "acknowledgement": 9}"#)
            #expect(again.code != "tooFewNodes", "\(again.text)")
            #expect(try node.coordinator.currentToken.position == 1)
        }
    }

    @Test("More nodes than the cluster has are refused, and nothing is saved")
    func refusesTooManyNodes() async throws {
        try await HTTPTestNode.run { node in
            let three = try await node.save(
                #"{"operations": [{"insert": "Note"}], "acknowledgement": 3}"#)
            #expect(three.status == 422 && three.code == "tooFewNodes", "\(three.text)")
            #expect(three["error.members"] == .integer(2))
            #expect(try node.coordinator.currentToken.position == 0)
        }
    }

    @Test("An operation on what the request does not have hides nothing that is wrong with others")
    func collectsUnknownTargets() async throws {
        try await HTTPTestNode.run { node in
            let foreign = "x-tributary://other/Person/p5"
            let answer = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@a", "values": {"age": "x"}},
                  {"update": "@nobody", "values": {"name": "Eve"}},
                  {"delete": "\(foreign)"},
                  {"insert": "Person", "values": {"small": 40000}}]}
                """)
            #expect(answer.status == 422 && answer.code == "validationFailed")
            let failures = (answer["error.failures"]?.array ?? []).compactMap(\.object)
            let places = failures.map { [$0["object"]?.string, $0["property"]?.string] }
            #expect(
                places == [
                    ["@a", "age"], ["@nobody", "update"], [foreign, "delete"],
                    ["operations[3]", "small"], ["@a", "name"], ["operations[3]", "name"],
                ])
            let codes = failures.compactMap { $0["code"]?.integer }
            #expect(codes == [1550, 1560, 1560, 1550, 1570, 1570])
            #expect(try node.coordinator.currentToken.position == 0)
        }
    }

    @Test("A wrong type hides no mandatory value that is missing, in any operation")
    func collectsMissingValues() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let answer = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@a", "values": {"age": "x"}},
                  {"insert": "Person", "id": "@b", "values": {"age": 7}},
                  {"update": "@b", "values": {"name": "Bob"}},
                  {"insert": "Person", "values": {"age": 8}},
                  {"update": "\(ada)", "values": {"name": null}},
                  {"update": "\(ada)", "values": {"age": 9}}]}
                """)
            #expect(answer.status == 422)
            let failures = (answer["error.failures"]?.array ?? []).compactMap(\.object).map {
                [$0["object"]?.string, $0["property"]?.string]
            }
            #expect(
                failures == [
                    ["@a", "age"], ["@a", "name"], ["operations[3]", "name"], [ada, "name"],
                ])
            #expect(answer["error.failures.1.code"] == .integer(1570))
        }
    }
}
