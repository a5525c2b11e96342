import Coordinator
import Inspector
import Testing

/// What keys, answers and time change.
@Suite("Inspector's state") struct ReducerTests {
    private static let resolution = "POST /v1/conflicts/Person.p17.phone/resolution"

    private func saved(_ dot: String) -> JSONValue { ["transaction": .string(dot)] }

    /// An inspector with the conflict of the phone number chosen.
    private func phone() -> TestInspector {
        var inspector = TestInspector()
        inspector.type("/phone")
        inspector.press(.enter)
        return inspector
    }

    // MARK: Deciding

    @Test("A side that is taken names the sides that were on the screen, with author and note")
    func takesSide() {
        var inspector = phone()
        inspector.answers[Self.resolution] = saved("\(TestInspector.one)-50")
        inspector.type("1")
        #expect(inspector.lastChange == nil)
        #expect(inspector.text.contains("becomes \"+46 70 123 99 67\""))
        inspector.type("asked Ada")
        inspector.press(.enter)
        #expect(inspector.lastChange?.path == "/v1/conflicts/Person.p17.phone/resolution")
        #expect(
            inspector.lastChange?.body == [
                "side": .string("\(TestInspector.one)-41"),
                "sides": .array([
                    .string("\(TestInspector.one)-41"), .string("\(TestInspector.two)-117"),
                ]),
                "author": "eva", "note": "asked Ada",
            ])
        #expect(inspector.state.message?.kind == .success)
        #expect(
            inspector.state.log.entries.last { $0.command.contains("resolve") }?.command
                == "tributary conflicts resolve Person.p17.phone --side \(TestInspector.one)-41 "
                + "--seen \(TestInspector.one)-41,\(TestInspector.two)-117 --author eva "
                + "--note 'asked Ada' --node http://127.0.0.1:7100")
    }

    @Test("Escape cancels a decision, and without a note none is sent")
    func cancels() {
        var inspector = phone()
        inspector.answers[Self.resolution] = saved("1-1")
        inspector.type("2")
        inspector.press(.escape)
        #expect(inspector.lastChange == nil)
        inspector.type("2")
        inspector.press(.enter)
        #expect(inspector.lastChange?.body?.object?["note"] == nil)
    }

    @Test("Where the sides have changed, nothing is done, it is said, and the conflict comes again")
    func sidesChanged() {
        var inspector = phone()
        inspector.refusals[Self.resolution] = InspectorFailure(
            status: 409, code: "sidesChanged", message: "Others by now.")
        let before = inspector.requests.count
        inspector.type("1")
        inspector.press(.enter)
        #expect(inspector.state.message?.text.hasPrefix("Somebody wrote since you looked") ?? false)
        #expect(
            inspector.requests.dropFirst(before).contains {
                $0.purpose == .conflict("Person.p17.phone")
            })
        #expect(
            inspector.state.log.entries.contains { $0.outcome == "Others by now." && !$0.isGood })
    }

    @Test("A lost answer is not taken for a refusal")
    func lostAnswer() {
        var inspector = phone()
        inspector.refusals[Self.resolution] = InspectorFailure(
            status: 0, code: "", message: "Cut off.", mayHaveHappened: true)
        inspector.type("1")
        inspector.press(.enter)
        #expect(inspector.state.message?.text.contains("may have been done or not") ?? false)
    }

    @Test("A value is typed by its type, and sent as it")
    func typesValue() {
        var inspector = TestInspector()
        inspector.type("/age")
        inspector.press(.enter)
        inspector.answers["POST /v1/conflicts/Person.p17.age/resolution"] = saved("1-1")
        inspector.type("e")
        inspector.press(.control("u"))
        inspector.type("x")
        inspector.press(.enter)
        #expect(inspector.state.message?.text == "Type a whole number.")
        inspector.press(.control("u"))
        inspector.type("42")
        inspector.press(.enter, .enter)
        #expect(inspector.lastChange?.body?.object?["values"] == ["age": 42])
    }

    @Test("A reference is typed by the object's name, in the cluster of the conflict's object")
    func typesReference() {
        let conflict = TestInspector.conflict(
            "manager", short: "77aa01", state: "unresolved",
            one: "\"x-tributary://shop/Person/p18\"", two: "null", policy: "error")
        var inspector = TestInspector(conflicts: [conflict])
        inspector.answers["POST /v1/conflicts/Person.p17.manager/resolution"] = saved("1-1")
        inspector.type("e")
        #expect(inspector.text.contains("manager (reference) becomes: Person/p18"))
        for (text, wanted) in [
            ("p19", "x-tributary://shop/Person/p19"),
            ("Person/p20", "x-tributary://shop/Person/p20"),
        ] {
            inspector.press(.control("u"))
            inspector.type(text)
            inspector.press(.enter, .enter)
            #expect(
                inspector.lastChange?.body?.object?["values"] == ["manager": .string(wanted)])
            inspector.type("e")
        }
        inspector.press(.control("u"))
        inspector.type("somebody else")
        inspector.press(.enter)
        #expect(inspector.state.message?.text == "Type an object, such as Person/p17.")
    }

    @Test("A closed conflict's other side is an ordinary save against the version on the screen")
    func savesOverClosed() {
        let closed = TestInspector.conflict(
            "phone", short: "3fa2c1", isOpen: false, one: "\"1\"", two: "\"2\"", suffix: "@6")
        var inspector = TestInspector(conflicts: [closed])
        inspector.answers["POST /v1/save"] = saved("\(TestInspector.one)-51")
        inspector.type("1")
        inspector.press(.enter)
        #expect(
            inspector.lastChange?.body == [
                "operations": .array([
                    [
                        "update": .string(TestInspector.ada), "values": ["phone": "1"],
                        "version": "v1",
                    ]
                ]), "author": "eva",
            ])
        // Undoing then takes back that save, not the policy's choice.
        inspector.answers["POST /v1/saves/\(TestInspector.one)-51/undo"] = saved("1-2")
        inspector.type("u")
        inspector.press(.enter)
        #expect(inspector.lastChange?.path == "/v1/saves/\(TestInspector.one)-51/undo")
    }

    @Test("An outcome is undone with the sides on the screen; without one there is nothing to undo")
    func undoes() {
        var inspector = phone()
        inspector.answers["POST /v1/conflicts/Person.p17.phone/undo"] = saved("1-1")
        inspector.type("u")
        inspector.press(.enter)
        #expect(inspector.lastChange?.path == "/v1/conflicts/Person.p17.phone/undo")
        #expect(inspector.lastChange?.body?.object?["sides"]?.array?.count == 2)
        inspector.press(.escape)
        inspector.type("/age")
        inspector.press(.enter)
        inspector.type("u")
        #expect(inspector.state.prompt == nil)
        #expect(inspector.state.message?.text.contains("nothing to undo") ?? false)
    }

    @Test("Marked conflicts are resolved one after the other, and those that are closed are not")
    func resolvesMarked() {
        var inspector = TestInspector()
        for property in ["phone", "notes", "age", "photo"] {
            inspector.answers["POST /v1/conflicts/Person.p17.\(property)/resolution"] = saved("1-1")
        }
        inspector.refusals["POST /v1/conflicts/Person.p17.photo/resolution"] = InspectorFailure(
            status: 409, code: "sidesChanged", message: "Others by now.")
        inspector.type("ap2")
        #expect(inspector.text.contains("4 conflicts are resolved by mergeByPropertyStoreTrump."))
        #expect(inspector.text.contains("1 closed ones stay"))
        inspector.press(.enter)
        #expect(inspector.requests.filter(\.isChange).count == 4)
        #expect(inspector.state.message?.text.hasPrefix("3 resolved, 1 refused") ?? false)
        #expect(inspector.state.list.markedCount == 0)
        #expect(inspector.state.bulk == nil)
    }

    @Test("Of a file nothing can be decided, and it says that a node is needed")
    func readOnly() {
        for key in "12edup" {
            var inspector = TestInspector(isReadOnly: true)
            inspector.press(.character(key))
            #expect(inspector.state.message?.text.contains("ask a node") ?? false)
            #expect(inspector.state.prompt == nil)
        }
    }

    @Test("Objects of one key that one transaction wrote are told apart")
    func ambiguousSide() {
        let side = """
            {"dot": "1.a-1", "node": 1, "visible": false, "value": {"object": "x-tributary://shop/Person/p1", "values": {"name": "A"}}},
            {"dot": "1.a-1", "node": 1, "visible": true, "value": {"object": "x-tributary://shop/Person/p2", "values": {"name": "A"}}}
            """
        let conflict =
            TestInspector.json(
                """
                {"id": "Person.p1.key", "kind": "uniqueness", "state": "unresolved", "open": true,
                 "entity": "Person", "object": "x-tributary://shop/Person/p1", "property": null,
                 "policy": "error", "sides": [\(side)], "base": null, "reason": null}
                """
            ).object ?? [:]
        var inspector = TestInspector(conflicts: [conflict])
        inspector.answers["POST /v1/conflicts/Person.p1.key/resolution"] = saved("1-1")
        inspector.type("2")
        inspector.press(.enter)
        #expect(
            inspector.lastChange?.body?.object?["object"]
                == .string("x-tributary://shop/Person/p2"))
    }

    // MARK: The list

    @Test("What waits for somebody comes first, then the newest")
    func order() {
        let inspector = TestInspector()
        #expect(inspector.state.chosen?.id == "Person.p17.age")
        #expect(inspector.state.list.rows.count == 5)
    }

    @Test("The filter looks in ID, entity, property, values and authors, with all its words")
    func filters() {
        var inspector = TestInspector()
        for (text, count) in [
            ("PHONE", 1), ("p17", 4), ("order", 1), ("777 45", 1), ("ana ben", 4), ("trondheim", 1),
            ("3fa2c1", 1), ("nothing", 0), ("unresolved", 1),
        ] {
            inspector.press(.escape)
            inspector.type("/" + text)
            #expect(inspector.state.list.matches.count == count, "\(text)")
            inspector.press(.enter)
        }
        inspector.press(.escape)
        #expect(inspector.state.list.matches.count == 5)
    }

    @Test("A choice stays with its conflict while the list is filtered, grouped and read again")
    func keepsChoice() {
        var inspector = phone()
        inspector.press(.escape)
        #expect(inspector.state.chosen?.property == "phone")
        for _ in 0..<6 {
            inspector.type("g")
            #expect(inspector.state.chosen?.property == "phone")
        }
        inspector.type("r")
        #expect(inspector.state.chosen?.property == "phone")
    }

    @Test("Groups are largest first, close and open, and are marked as one")
    func groups() {
        var inspector = TestInspector()
        inspector.type("g")
        #expect(inspector.state.list.groups.map(\.name) == ["Person", "Order"])
        inspector.press(.home, .enter)
        #expect(inspector.state.list.rows.count == 3)
        inspector.type(" ")
        #expect(inspector.state.list.markedCount == 4)
        inspector.press(.enter)
        #expect(inspector.state.list.rows.count == 7)
    }

    @Test("A range marks all between its ends, and marks outlive a filter")
    func marks() {
        var inspector = TestInspector()
        inspector.press(.character("v"), .down, .down, .character("v"))
        #expect(inspector.state.list.markedCount == 3)
        inspector.type("/order")
        inspector.press(.enter)
        inspector.type(" ")
        inspector.press(.escape)
        #expect(inspector.state.list.markedCount == 4)
        inspector.type("a")
        #expect(inspector.state.list.markedCount == 5)
        inspector.type("a")
        #expect(inspector.state.list.markedCount == 0)
    }

    @Test("A conflict that closes while it is chosen stays chosen under its closed name")
    func followsClosing() {
        var inspector = phone()
        let closed = TestInspector.conflict(
            "phone", short: "3fa2c1", state: "resolved", isOpen: false, one: "\"1\"",
            two: "\"2\"", suffix: "@170")
        inspector.serve([closed, TestInspector.notes])
        inspector.answers["GET /v1/status"] = ["generation": 170, "token": "t2"]
        inspector.wait(3_000)
        #expect(inspector.state.chosen?.id == "Person.p17.phone@170")
        #expect(inspector.state.chosenConflict?.item.state == .resolved)
    }

    @Test("Pages are read one after the other, and what is beyond the bound is said")
    func pages() {
        var inspector = TestInspector(conflicts: [TestInspector.phone])
        var list = ConflictList()
        list.append(TestInspector.many(100))
        #expect(list.items.count == 100)
        #expect(list.unresolvedCount == 2)
        inspector.answers["GET /v1/conflicts?state=all&limit=10000"] = [
            "conflicts": .array([.object(TestInspector.phone)]), "next": "6.3",
        ]
        inspector.answers["GET /v1/conflicts?state=all&limit=10000&after=6.3"] = [
            "conflicts": .array([.object(TestInspector.age)]), "next": .null,
        ]
        inspector.type("r")
        #expect(inspector.state.list.items.map(\.property) == ["phone", "age"])
        #expect(!inspector.state.list.isLoading)
    }

    @Test(
        "The newest conflicts come in front of a long list; a closed one takes its open one's place"
    )
    func newest() {
        var list = ConflictList()
        let items = TestInspector.many(5_000)
        list.replace(items)
        let closed = TestInspector.conflict(
            "name", short: "100001", state: "resolved", isOpen: false, object: "p1",
            one: "\"1\"", two: "\"2\"", suffix: "@9")
        let page =
            [ConflictItem(closed)].compactMap { $0 }
            + items.prefix(10).filter {
                $0.id != "Person.p1.name"
            }
        let isKnown = list.merge(newest: page)
        #expect(isKnown)
        #expect(list.items.count == 5_000)
        #expect(list.items.first?.id == "Person.p1.name@9")
        let others = TestInspector.many(6_000).suffix(200)
        let areOthersKnown = list.merge(newest: Array(others))
        #expect(!areOthersKnown)
    }

    // MARK: Connection

    @Test("A lost connection is said, tried again with longer pauses, and told when it is back")
    func lost() {
        var inspector = phone()
        inspector.isReachable = false
        inspector.wait(2_500)
        #expect(inspector.text.contains("No answer"))
        #expect(inspector.text.contains("no answer"))
        let asked = inspector.requests.count
        inspector.wait(500)
        #expect(inspector.requests.count == asked)
        inspector.type("1")
        #expect(inspector.state.prompt == nil)
        for _ in 0..<10 { inspector.wait(1_000) }
        #expect(inspector.requests.count < asked + 10)
        inspector.isReachable = true
        for _ in 0..<6 { inspector.wait(1_000) }
        #expect(inspector.state.connection == .live)
        #expect(inspector.state.message?.text.contains("answers again") ?? false)
        #expect(inspector.state.chosen?.property == "phone")
    }

    @Test("An inspector that starts without a node fills itself once there is one")
    func startsAlone() {
        var inspector = TestInspector(conflicts: [])
        inspector.isReachable = false
        inspector.wait(3_000)
        inspector.isReachable = true
        inspector.serve(TestInspector.conflicts)
        inspector.wait(3_000)
        inspector.wait(3_000)
        #expect(inspector.state.list.items.count == 5)
    }

    // MARK: Views

    @Test("Of a node that does not answer blame, the versions are shown and that is said")
    func blameFallback() {
        var inspector = phone()
        inspector.answers["GET /v1/objects/Person/p17?versions=true"] = TestInspector.json(
            """
            {"id": "\(TestInspector.ada)", "values": {"phone": "1"}, "versions": {"phone":
              {"dot": "2.6f-7", "timestamp": {"milliseconds": 1795000030000, "counter": 0}, "siblings": []}}}
            """)
        inspector.type("b")
        #expect(inspector.text.contains("This node does not answer blame"))
        #expect(inspector.text.contains("2.6f-7"))
        inspector.press(.escape)
        #expect(inspector.state.view == .conflicts)
    }

    @Test("From an object one goes to those next to it, and back")
    func neighbours() {
        var inspector = phone()
        inspector.type("o")
        #expect(inspector.text.contains("manager → Person \"Bob\""))
        inspector.press(.enter)
        #expect(inspector.state.object?.uri == "x-tributary://shop/Person/p18")
        inspector.press(.escape)
        #expect(inspector.state.object?.uri == TestInspector.ada)
        inspector.press(.escape)
        #expect(inspector.state.view == .conflicts)
    }

    @Test("Tab goes through the panels, and each key of a panel goes there at once")
    func tabs() {
        var inspector = TestInspector()
        for view in [InspectorState.View.nodes, .log, .conflicts] {
            inspector.press(.tab)
            #expect(inspector.state.view == view)
        }
        inspector.press(.backTab)
        #expect(inspector.state.view == .log)
        inspector.type("n")
        #expect(inspector.state.view == .nodes)
        #expect(inspector.text.contains("it lacks 12"))
    }

    @Test("Quit, suspend and draw again are wanted of the terminal, also while something is asked")
    func effects() {
        var inspector = phone()
        inspector.type("1")
        inspector.press(.control("z"), .control("l"), .control("c"))
        #expect(inspector.effects == [.suspend, .redraw, .quit])
        inspector.press(.escape)
        inspector.type("m")
        #expect(inspector.effects.last == .mouse(true))
    }

    @Test("A click chooses a row, a second one opens it, and a title changes the panel")
    func mouse() {
        var inspector = TestInspector()
        inspector.press(.click(row: 4, column: 20))
        #expect(inspector.state.list.cursor == 1)
        inspector.press(.click(row: 4, column: 20))
        #expect(inspector.state.view == .conflict)
        inspector.press(.click(row: 0, column: 24))
        #expect(inspector.state.view == .nodes)
    }

    @Test("The same keys give the same state, whatever the process")
    func repeatable() {
        func run() -> [String] {
            var inspector = TestInspector()
            inspector.type("gg/ana")
            inspector.press(.enter)
            inspector.type("aplnb")
            return inspector.screen.lines + inspector.requests.map(\.path)
        }
        #expect(run() == run())
    }

    // MARK: Words for a shell

    @Test("Commands are quoted so that a shell takes each word as it is")
    func quoting() {
        #expect(ShellText.quoted("Person.p17.phone@6") == "Person.p17.phone@6")
        #expect(ShellText.quoted("it's $HOME") == "'it'\\''s $HOME'")
        #expect(ShellText.quoted("") == "''")
        #expect(ShellText.line(["a", "b c"]) == "a 'b c'")
    }

    @Test("Differences are marked to the character within words")
    func differences() {
        func changed(_ text: String, _ base: String) -> [String] {
            WordDifference.spans(text, from: base).filter { $0.style == .changed }.map(\.text)
        }
        #expect(changed("+46 70 123 99 67", "+46 70 123 45 67") == ["99"])
        #expect(changed("Lovelaces", "Lovelace") == ["s"])
        #expect(changed("ada@ana.example", "ada@old.example") == ["ana"])
        #expect(changed("same", "same") == [])
        let long = String(repeating: "word ", count: 2_000)
        #expect(changed(long + "x", long + "y") == ["x"])
    }
}
