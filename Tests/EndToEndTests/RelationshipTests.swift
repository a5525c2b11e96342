import Coordinator
import Testing

extension EndToEnd {
    @Suite("Relationships of objects with unique keys, under several writers")
    struct RelationshipTests {}
}

/// What was saved, most of it on nodes that had not heard of each other, and what the policy makes
/// of that.
private struct Season: Sendable {
    let policy: String
    /// The rows that each node inserted apart: objects of the same keys, and those that refer to
    /// them. The first to insert is in front, so that its objects are shown.
    var sides: [SaveAnswerText] = []
    /// Other saves, by what they do.
    var saves: [String: SaveAnswerText] = [:]

    /// Under an error policy a save is for the row that it names, and nothing of a group is
    /// combined.
    var isUndecided: Bool { policy == "error" }

    /// The objects of one name of all sides.
    func all(_ name: String) throws -> [String] { try sides.map { try $0.uri("@\(name)") } }

    func survivor(_ name: String) throws -> String {
        guard let first = sides.first else { throw EndToEndError("Nobody inserted \(name)") }
        return try first.uri("@\(name)")
    }

    /// The object that a save inserted.
    func uri(_ save: String, _ name: String) throws -> String {
        try self.save(save).uri("@\(name)")
    }

    func save(_ name: String) throws -> SaveAnswerText {
        guard let save = saves[name] else { throw EndToEndError("Nobody saved \(name)") }
        return save
    }

    /// What readers see of values that were written apart.
    func standing<Value>(_ writes: [(save: SaveAnswerText, value: Value)]) -> Value? {
        let sorted = writes.sorted { $0.save.stamp < $1.save.stamp }
        return (policy == "overwrite" ? sorted.last : sorted.first)?.value
    }

    /// Whether an object is there that one save wrote to and another deleted.
    func survives(_ write: String, _ delete: String) throws -> Bool {
        switch policy {
        case "error": true
        case "overwrite": try save(delete).stamp < save(write).stamp
        default: false
        }
    }
}

extension EndToEnd.RelationshipTests {
    @Test(
        "What leads to objects of one key leads to the one that is shown, whatever comes together",
        arguments: ["mergeByPropertyStoreTrump", "overwrite", "error"])
    func leadsToSurvivors(policy: String) async throws {
        try await TestCluster.with(model: League.json(policy: policy)) { cluster in
            var season = Season(policy: policy)
            try await begin(&season, cluster)
            try await cluster.waitForConvergence()
            await cluster.partition([[1], [2], [3]])
            for node in cluster.nodes { season.sides.append(try await insertSide(node)) }
            try await diverge(&season, cluster)
            var positions: Set<Position> = []
            for node in cluster.nodes { positions.insert(try await node.position()) }
            #expect(positions.count == 3, "The partition has not held")
            await cluster.heal()
            try await expectAgreement(cluster)
            for node in cluster.nodes {
                let view = try await LeagueView(node)
                view.expectSound("node \(node.number)")
                let shown = try await shown(season, on: node)
                for name in ["red", "blue", "ada"] {
                    let survivor = try season.survivor(name)
                    #expect(try season.all(name).allSatisfy { shown[$0] == survivor })
                }
                try expectUnited(view, season)
                try expectSettled(view, season)
                #expect(try await dangling(on: node) == expectedDangling(season))
                try await expectDenied(season, on: node)
            }

            try await bringBack(season, on: cluster.node(3))
            try await expectAgreement(cluster)
            for node in cluster.nodes {
                let view = try await LeagueView(node)
                view.expectSound("node \(node.number)")
                let buried = try season.uri("begin", "buried")
                let late = try season.uri("refer", "late")
                #expect(view.value(late, "host") == .string(buried))
                #expect(try await dangling(on: node)[late] == nil)
            }

            await cluster.partition([[1], [2], [3]])
            try await changeSurvivors(&season, cluster)
            await cluster.heal()
            try await expectAgreement(cluster)
            for node in cluster.nodes {
                let view = try await LeagueView(node)
                view.expectSound("node \(node.number)")
                try expectRegrouped(view, try await shown(season, on: node), season)
            }
        }
    }

    // MARK: - The steps

    /// What all nodes know before they are apart.
    private func begin(_ season: inout Season, _ cluster: TestCluster) async throws {
        season.saves["begin"] = try await cluster.node(1).save([
            .insert("Team", id: "@buried", ["name": "Buried"]),
            .insert("Team", id: "@bare", ["name": "Bare"]),
            .insert("Team", id: "@linked", ["name": "Linked"]),
            .insert(
                "Sponsor", id: "@old", ["name": "Old", "teams": .array(["@linked"])]),
            .insert("Player", id: "@quitter", ["name": "Quitter", "number": 1]),
            .insert("Player", id: "@mother", ["name": "Mother", "number": 2]),
            .insert("Medal", id: "@child", ["name": "Child", "holder": "@mother"]),
        ])
    }

    /// The same keys on every node, each with references from objects of its own.
    private func insertSide(_ node: NodeHandle) async throws -> SaveAnswerText {
        let number = node.number
        // What the first does not assign may be another's.
        var red: JSONObject = ["name": "Red"]
        if number > 1 { red["motto"] = "of \(number)" }
        return try await node.save([
            .insert("Team", id: "@red", red),
            .insert(number == 2 ? "Team" : "Club", id: "@blue", ["name": "Blue"]),
            .insert(
                "Player", id: "@ada", ["name": "Ada", "number": 7, "team": "@red"]),
            .insert(
                "Player", id: "@solo",
                ["name": "Solo", "number": .integer(Int64(number)), "team": "@red"]),
            .insert("Medal", id: "@medal", ["name": "Medal", "holder": "@ada"]),
            .insert(
                "Sponsor", id: "@sponsor", ["name": "Sponsor", "teams": .array(["@red"])]),
            .insert("Ground", id: "@ground", ["name": "Ground", "home": "@red"]),
            .insert("Game", id: "@game", ["name": "Game", "host": "@blue"]),
        ])
    }

    /// An edit of one of those, deletes against references and edits, and a link that is taken away
    /// on one node and made again on another.
    private func diverge(_ season: inout Season, _ cluster: TestCluster) async throws {
        let (one, two, three) = (cluster.node(1), cluster.node(2), cluster.node(3))
        let begun = try season.save("begin")
        func known(_ name: String) throws -> String { try begun.uri("@\(name)") }
        let (buried, bare, linked) = try (known("buried"), known("bare"), known("linked"))
        let (quitter, mother, child) = try (known("quitter"), known("mother"), known("child"))
        let link: JSONValue = ["sponsors": .array([.string(try known("old"))])]
        let remove: JSONValue = ["update": .string(linked), "remove": link]

        let motto = JSONValue.update(try season.sides[2].uri("@red"), ["motto": "edited"])
        let refer: [JSONValue] = [
            .update(buried, ["motto": "alive"]),
            .insert("Game", id: "@late", ["name": "Late", "host": .string(buried)]),
            .insert("Game", id: "@idle", ["name": "Idle", "host": .string(bare)]),
            .insert("Medal", id: "@broken", ["name": "Broken", "holder": .string(quitter)]),
        ]
        let stray = JSONValue.insert(
            "Player", id: "@stray", ["name": "Stray", "number": 3, "team": .string(bare)])
        season.saves["second"] = season.sides[1]
        season.saves["edit"] = try await three.save([motto])
        season.saves["refer"] = try await two.save(refer)
        season.saves["stray"] = try await three.save([stray])
        // The medal goes with its holder.
        season.saves["delete"] = try await one.save(
            [buried, bare, quitter, mother].map(JSONValue.delete))
        season.saves["child"] = try await two.save(.update(child, ["name": "edited"]))
        season.saves["unlink"] = try await one.save([remove])
        // Links that are there already would not be made again.
        try await two.save([remove])
        season.saves["link"] = try await two.save([["update": .string(linked), "add": link]])
        season.sides.sort { $0.stamp < $1.stamp }
    }

    /// A save to what is shown against its delete, and a key that it takes as another does.
    private func changeSurvivors(_ season: inout Season, _ cluster: TestCluster) async throws {
        let (one, two, three) = (cluster.node(1), cluster.node(2), cluster.node(3))
        let (red, blue) = try (season.survivor("red"), season.survivor("blue"))
        let ada = try season.survivor("ada")
        season.saves["remove"] = try await two.save([red, ada].map(JSONValue.delete))
        season.saves["keep"] = try await one.save(.update(red, ["motto": "kept"]))
        season.saves["gold"] = try await one.save(.insert("Team", id: "@gold", ["name": "Gold"]))
        try await three.save(.update(blue, ["name": "Gold"]))
    }

    /// Undoes the delete that the policy let stand; where it decides nothing, decides for the edit.
    private func bringBack(_ season: Season, on node: NodeHandle) async throws {
        let isThere = try season.survives("refer", "delete")
        guard season.isUndecided || !isThere else { return }
        let buried = try season.uri("begin", "buried")
        let side = JSONValue.string(try season.save("refer").transaction)
        let decision = season.isUndecided ? JSONValue.object(["side": side]) : nil
        var last = ""
        // Once all nodes have both writes on disk the conflict is closed, and has another name.
        for _ in 0..<20 {
            let conflict = try await node.conflicts("kind=delete&limit=1000")
                .first { $0.text("object") == buried }
            let id = conflict?.text("id") ?? "none"
            let (status, answer) = try await node.ask(
                "POST", "/v1/conflicts/\(id)/\(season.isUndecided ? "resolution" : "undo")",
                decision)
            if status == 200 { return }
            last = "\(id): \(status) \(JSONWriter.text(of: .object(answer)))"
            try await Task.sleep(for: .milliseconds(100))
        }
        throw EndToEndError("The deleted team could not be brought back: \(last)")
    }

    // MARK: - What must hold afterwards

    /// Expects that all nodes come to show the same, and find their digests right.
    private func expectAgreement(_ cluster: TestCluster) async throws {
        try await cluster.waitForConvergence()
        let first = try await cluster.contents(of: cluster.node(1), entities: League.roots)
        for node in cluster.nodes.dropFirst() {
            let other = try await cluster.contents(of: node, entities: League.roots)
            let difference = other.difference(from: first).map { "\($0)" }
            #expect(
                difference.isEmpty,
                "Node \(node.number) differs from node 1: \(difference.prefix(6))")
        }
        try await expectVerified(cluster)
    }

    /// Who is shown for each object that has another's key; empty where it is gone.
    ///
    /// Expects that those which are there and not shown, and no others, are in an open conflict.
    private func shown(_ season: Season, on node: NodeHandle) async throws -> [String: String] {
        let losers = try await losers(on: node)
        let state = season.isUndecided ? "unresolved" : "settled"
        var uris = try season.all("red") + season.all("blue") + season.all("ada")
        if season.saves["gold"] != nil { uris.append(try season.uri("gold", "gold")) }
        var result: [String: String] = [:]
        for uri in uris {
            let parts = uri.split(separator: "/").suffix(2).map(String.init)
            // For a Club a Team may be shown that is none.
            let entity = parts[0] == "Club" ? "Team" : parts[0]
            let (status, answer) = try await node.ask("GET", "/v1/objects/\(entity)/\(parts[1])")
            #expect(status == 200 || status == 404, "\(uri) on node \(node.number): \(answer)")
            let shown = status == 200 ? answer.text("id") : ""
            let isLoser = !shown.isEmpty && shown != uri
            let listed = isLoser ? [shown, state] : nil
            #expect(losers[uri] == listed, "\(uri) on node \(node.number)")
            result[uri] = shown
        }
        return result
    }

    /// The objects that others are shown for, each with that other and the conflict's state.
    private func losers(on node: NodeHandle) async throws -> [String: [String]] {
        var result: [String: [String]] = [:]
        for conflict in try await node.conflicts("kind=uniqueness&open=true&limit=1000") {
            let sides = conflict.objects("sides")
            // Readers may see values of several of them, so no side need be marked as visible.
            let survivor = conflict.text("object")
            #expect(sides.map(object).contains(survivor))
            for side in sides where object(side) != survivor {
                result[object(side)] = [survivor, conflict.text("state")]
            }
        }
        return result
    }

    /// Whose side of a conflict over a key it is.
    private func object(_ side: JSONObject) -> String {
        side["value"]?.object?.text("object") ?? ""
    }

    /// The objects with a reference to an object that is gone, or is another's alone: each with the
    /// rule of the model that it breaks by that, if any.
    private func dangling(on node: NodeHandle) async throws -> [String: String] {
        var result: [String: String] = [:]
        for conflict in try await node.conflicts("kind=dangling&open=true&limit=1000") {
            result[conflict.text("object")] = conflict.text("violation")
        }
        return result
    }

    private func expectedDangling(_ season: Season) throws -> [String: String] {
        let missing = "missingMandatoryProperty"
        var result: [String: String] = [:]
        result[try season.uri("refer", "idle")] = ""
        result[try season.uri("stray", "stray")] = ""
        result[try season.uri("refer", "broken")] = missing
        // Of the grounds one alone has the team for its home.
        let standing = try standingGround(season)
        for ground in try season.all("ground") where ground != standing { result[ground] = "" }
        if try !season.survives("refer", "delete") {
            result[try season.uri("refer", "late")] = ""
        }
        // Its holder is gone, whatever becomes of it.
        if try season.survives("child", "delete") {
            result[try season.uri("begin", "child")] = missing
        }
        return result
    }

    private func standingGround(_ season: Season) throws -> String? {
        season.standing(try season.sides.map { (save: $0, value: try $0.uri("@ground")) })
    }

    /// Expects that what is shown for a group has all that led to any of its objects.
    private func expectUnited(_ view: LeagueView, _ season: Season) throws {
        let (red, ada) = try (season.survivor("red"), season.survivor("ada"))
        let blue = try season.survivor("blue")
        #expect(try view.targets(red, "players") == Set(season.all("solo") + [ada]))
        #expect(try view.targets(red, "sponsors") == Set(season.all("sponsor")))
        #expect(try view.targets(red, "ground").first == standingGround(season))
        #expect(try view.targets(ada, "medals") == Set(season.all("medal")))
        #expect(view.value(ada, "team") == .string(red))
        #expect(try view.targets(blue, "games") == Set(season.all("game")))
        // The first assigned none; under a policy that decides nothing nobody else's is shown.
        let mottos = [
            (save: try season.save("second"), value: "of 2"),
            (save: try season.save("edit"), value: "edited"),
        ]
        let motto = season.isUndecided ? nil : season.standing(mottos)
        let shown = motto.map { JSONValue.string($0) } ?? .null
        #expect(view.value(red, "motto") == shown)
    }

    /// Expects of deletes and links what the policy says.
    private func expectSettled(_ view: LeagueView, _ season: Season) throws {
        for name in ["bare", "quitter", "mother"] {
            let uri = try season.uri("begin", name)
            #expect(view.objects[uri] == nil, "\(name) is there")
        }
        let buried = try season.uri("begin", "buried")
        let isThere = try season.survives("refer", "delete")
        #expect((view.objects[buried] != nil) == isThere)
        let late = try season.uri("refer", "late")
        #expect(view.value(late, "host") == (isThere ? .string(buried) : .null))
        let broken = try season.uri("refer", "broken")
        #expect(view.value(broken, "holder") == .null)

        let child = try season.uri("begin", "child")
        let isKept = try season.survives("child", "delete")
        #expect((view.objects[child] != nil) == isKept)
        if isKept {
            #expect(view.value(child, "name") == "edited")
            #expect(view.value(child, "holder") == .null)
        }

        let links = [
            (save: try season.save("unlink"), value: false),
            (save: try season.save("link"), value: true),
        ]
        let isLinked = season.isUndecided || season.standing(links) == true
        let old = try season.uri("begin", "old")
        let sponsors = view.targets(try season.uri("begin", "linked"), "sponsors")
        #expect(sponsors == (isLinked ? Set([old]) : Set()))
    }

    /// Expects that a delete rule knows of all that leads to any object of a group.
    private func expectDenied(_ season: Season, on node: NodeHandle) async throws {
        let delete = JSONValue.delete(try season.survivor("blue"))
        let (status, answer) = try await node.askToSave(delete)
        #expect(status == 409)
        #expect(answer.code == "deleteDenied", "\(answer)")
    }

    private func expectRegrouped(
        _ view: LeagueView, _ shown: [String: String], _ season: Season
    ) throws {
        let (reds, blues) = try (season.all("red"), season.all("blue"))
        let adas = try season.all("ada")
        // The renamed one was inserted before the other that has the key.
        let gold = try season.uri("gold", "gold")
        #expect(shown[gold] == blues[0])
        #expect(view.value(blues[0], "name") == "Gold")
        // Where a save is for one row, the next of the group takes over the key that it gives up.
        for (place, blue) in blues.enumerated() {
            let next = blues[season.isUndecided && place > 0 ? 1 : 0]
            #expect(shown[blue] == next)
        }
        for (place, ada) in adas.enumerated() {
            let next = season.isUndecided && place > 0 ? adas[1] : ""
            #expect(shown[ada] == next)
        }
        // Deleted with the one that had them all; where its delete was for one row, only those that
        // were that row's own, and the others are with the one that is shown now.
        for (place, medal) in try season.all("medal").enumerated() {
            let isHandedOn = season.isUndecided && place > 0
            #expect((view.objects[medal] != nil) == isHandedOn)
            if isHandedOn { #expect(view.value(medal, "holder") == .string(adas[1])) }
        }
        let isKept = try season.survives("keep", "remove")
        let kept = isKept ? reds[0] : ""
        for red in reds { #expect(shown[red] == kept) }
        if isKept { #expect(view.value(reds[0], "motto") == "kept") }
    }
}
