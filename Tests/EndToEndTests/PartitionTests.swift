import Coordinator
import TestSupport
import Testing

extension EndToEnd {
    @Suite("After a partition")
    struct PartitionTests {}
}

/// What was saved in the two halves of a partitioned cluster, for one entity.
private struct Story: Sendable {
    let entity: String
    let policy: String
    /// Objects by what happens to them.
    var uris: [String: String] = [:]
    /// The saves on nodes 1 and 2, by what they do.
    var saves: [String: (one: SaveAnswerText, two: SaveAnswerText)] = [:]

    static let objects = [
        "same", "different", "deleted", "parentA", "parentB", "child", "linked", "friend",
        "unlinked", "orphan",
    ]

    var isRowGrained: Bool { ["errorByRow", "rollback", "overwrite"].contains(policy) }

    func uri(_ name: String) -> String { uris[name] ?? "" }

    /// The number of the node, 1 or 2, whose write readers are to see.
    func winner(_ what: String) throws -> Int {
        guard let saves = saves[what] else { throw EndToEndError("Nobody saved \(what)") }
        let isFirstEarlier = saves.one.stamp < saves.two.stamp
        let isEarliest = !["mergeByPropertyObjectTrump", "overwrite"].contains(policy)
        return isFirstEarlier == isEarliest ? 1 : 2
    }
}

extension EndToEnd.PartitionTests {
    @Test("all policies converge, and readers see what the policy says")
    func convergesUnderEveryPolicy() async throws {
        try await TestCluster.with { cluster in
            var stories = try await begin(cluster)
            try await cluster.waitForConvergence()
            await cluster.partition([[1], [2], [3]])
            for index in stories.indices { try await diverge(&stories[index], cluster) }
            let separated = Set([
                try await cluster.node(1).position(), try await cluster.node(2).position(),
            ])
            #expect(separated.count == 2, "The partition has not held")
            await cluster.heal()
            try await cluster.waitForConvergence()
            try await expectEqualContents(cluster)
            for story in stories { try await check(story, cluster.node(3)) }
        }
    }

    @Test("a cluster cut in two goes on on both sides, time after time")
    func healsRepeatedly() async throws {
        try await TestCluster.with { cluster in
            var generator = SeededGenerator(seed: 7)
            var uris: [(entity: String, uri: String)] = []
            for entity in TestModel.entities where entity != "Errors" && entity != "Rows" {
                for index in 0..<4 {
                    let answer = try await cluster.node(1).save(
                        .insert(entity, id: "@x", ["name": "o\(index)"]))
                    uris.append((entity, try answer.uri("@x")))
                }
            }
            try await cluster.waitForConvergence()
            for groups in [[[1, 2], [3]], [[1], [2, 3]], [[1, 3], [2]]] {
                await cluster.partition(groups)
                for step in 0..<60 {
                    let node = cluster.node(Int.random(in: 1...3, using: &generator))
                    try await saveSomething(step, node, uris, &generator)
                }
                await cluster.heal()
                try await cluster.waitForConvergence()
            }
            try await expectEqualContents(cluster)
        }
    }

    @Test("links that hold bytes back without breaking cost time only")
    func survivesStalledLinks() async throws {
        try await TestCluster.with { cluster in
            await cluster.stall([[1, 2], [3]])
            for index in 0..<40 {
                for node in [cluster.node(1), cluster.node(3)] {
                    try await node.save(.insert("Latest", ["name": "n\(node.number)-\(index)"]))
                }
            }
            try await cluster.waitForConvergence(among: [1, 2])
            await cluster.heal()
            try await cluster.waitForConvergence()
            #expect(try await cluster.node(2).count("Latest") == 80)
            try await expectEqualContents(cluster)
        }
    }

    @Test("a link that is cut is not taken for one to somebody with a wrong key: there are no keys")
    func nobodyHasKeys() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let node = cluster.node(1)
            func peer() async throws -> JSONObject {
                try await node.status()["peers"]?.array?.first?.object ?? [:]
            }
            func waitUntilConnected(_ isConnected: Bool) async throws {
                try await eventually(isConnected ? "node 1 heard node 2" : "node 1 missed node 2") {
                    try await peer()["connected"]?.boolean == isConnected
                }
            }
            try await waitUntilConnected(true)
            await cluster.partition([[1], [2]])
            try await waitUntilConnected(false)
            // For as long as it takes to try to connect again, and to fail.
            var refusal = ""
            for _ in 0..<50 where refusal.isEmpty {
                refusal = try await peer().text("refusal")
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(!refusal.contains("listed"), "no keys are: \(refusal)")
        }
    }

    // MARK: - The steps

    private func begin(_ cluster: TestCluster) async throws -> [Story] {
        var stories: [Story] = []
        for entity in TestModel.entities {
            var story = Story(entity: entity, policy: TestModel.policies[entity] ?? "")
            let inserts = Story.objects.map { name in
                JSONValue.insert(
                    entity, id: "@\(name)",
                    ["name": .string(name), "a": "before", "b": "before"])
            }
            let answer = try await cluster.node(1).save(inserts)
            for name in Story.objects { story.uris[name] = try answer.uri("@\(name)") }
            try await cluster.node(1).save(.link(story.uri("linked"), add: [story.uri("friend")]))
            stories.append(story)
        }
        return stories
    }

    /// Saves on nodes 1 and 2, which do not hear of each other, and a little on node 3.
    private func diverge(_ story: inout Story, _ cluster: TestCluster) async throws {
        let (one, two) = (cluster.node(1), cluster.node(2))
        let same = story.uri("same")
        story.saves["same"] = (
            try await one.save(.update(same, ["a": "one", "number": 1])),
            try await two.save(.update(same, ["a": "two", "number": 2]))
        )
        let different = story.uri("different")
        story.saves["different"] = (
            try await one.save(.update(different, ["a": "one"])),
            try await two.save(.update(different, ["b": "two"]))
        )
        // The other way round in time, so that earliest and latest both meet both orders.
        let deleted = story.uri("deleted")
        let update = try await two.save(.update(deleted, ["a": "two"]))
        story.saves["deleted"] = (try await one.save(.delete(deleted)), update)
        let child = story.uri("child")
        let second = try await two.save(.update(child, ["parent": .string(story.uri("parentB"))]))
        story.saves["child"] = (
            try await one.save(.update(child, ["parent": .string(story.uri("parentA"))])),
            second
        )
        // One removes the link; the other removes and adds it again, which is concurrent to that.
        let (linked, friend) = (story.uri("linked"), story.uri("friend"))
        let removed = try await one.save(.link(linked, remove: [friend]))
        try await two.save(.link(linked, remove: [friend]))
        let added = try await two.save(.link(linked, add: [friend]))
        story.saves["linked"] = (removed, added)
        // Both add children to one parent, and equal links: no conflict.
        for node in [one, two] {
            try await node.save([
                .link(story.uri("unlinked"), add: [friend]),
                .insert(
                    story.entity,
                    [
                        "name": "new of \(node.number)",
                        "parent": .string(story.uri("parentA")),
                    ]),
            ])
        }
        try await cluster.node(3).save(
            .update(story.uri("orphan"), ["number": 3, "parent": .string(deleted)]))
    }

    private func saveSomething(
        _ step: Int, _ node: NodeHandle, _ uris: [(entity: String, uri: String)],
        _ generator: inout SeededGenerator
    ) async throws {
        let (entity, uri) = uris[Int.random(in: 0..<uris.count, using: &generator)]
        let other = uris.filter { $0.entity == entity }.randomElement(using: &generator)
        let operation: JSONValue =
            switch Int.random(in: 0..<10, using: &generator) {
            case 0: .delete(uri)
            case 1: .link(uri, add: [other?.uri ?? uri])
            case 2: .link(uri, remove: [other?.uri ?? uri])
            case 3: .update(uri, ["parent": .string(other?.uri ?? uri)])
            case 4...6: .update(uri, ["a": "\(node.number)-\(step)"])
            default:
                .update(uri, ["b": "\(step)", "number": .integer(Int64(step))])
            }
        let (status, answer) = try await node.askToSave(operation)
        // What was deleted before cannot be changed; everything else must be taken.
        #expect(
            [200, 404, 422].contains(status), "\(status) \(JSONWriter.text(of: .object(answer)))")
    }

    // MARK: - What must hold afterwards

    private func check(_ story: Story, _ node: NodeHandle) async throws {
        var objects: [String: JSONObject] = [:]
        for object in try await node.objects(story.entity) { objects[object.text("id")] = object }
        func value(_ name: String, _ property: String) -> JSONValue? {
            objects[story.uri(name)]?.value(property)
        }
        let note = Comment(rawValue: story.policy)

        let same = try story.winner("same")
        #expect(value("same", "a") == .string(same == 1 ? "one" : "two"), note)
        #expect(value("same", "number") == .integer(Int64(same)), note)

        if story.isRowGrained {
            let first = try story.winner("different") == 1
            #expect(value("different", "a") == .string(first ? "one" : "before"), note)
            #expect(value("different", "b") == .string(first ? "before" : "two"), note)
        } else {
            #expect(value("different", "a") == "one", note)
            #expect(value("different", "b") == "two", note)
        }

        let isAlive =
            switch story.policy {
            case "error", "errorByRow": true
            case "rollback", "overwrite": try story.winner("deleted") == 2
            default: false
            }
        #expect((objects[story.uri("deleted")] != nil) == isAlive, note)
        if isAlive { #expect(value("deleted", "a") == "two", note) }
        // A reference to what is gone is nil; to what the merge has kept, it stands.
        #expect(
            value("orphan", "parent") == (isAlive ? .string(story.uri("deleted")) : .null), note)
        #expect(value("orphan", "number") == .integer(3), note)

        let parent = try story.winner("child") == 1 ? "parentA" : "parentB"
        #expect(value("child", "parent") == .string(story.uri(parent)), note)
        let children = value("parentA", "children")?.array ?? []
        #expect(children.count == (parent == "parentA" ? 3 : 2), note)

        let isLinked =
            switch story.policy {
            case "error", "errorByRow": true
            default: try story.winner("linked") == 2
            }
        let friends = value("linked", "friends")?.array ?? []
        #expect(friends == (isLinked ? [.string(story.uri("friend"))] : []), note)
        #expect(value("unlinked", "friends")?.array == [.string(story.uri("friend"))], note)
        try await checkConflicts(story, node)
    }

    private func checkConflicts(_ story: Story, _ node: NodeHandle) async throws {
        let unresolved = try await node.unresolvedConflicts()
            .filter { $0.text("entity") == story.entity }.map { $0.text("id") }
        func id(_ name: String, _ property: String) -> String {
            let number = story.uri(name).split(separator: "/").last ?? ""
            return "\(story.entity).\(number).\(property)"
        }
        let note = Comment(rawValue: "\(story.policy): \(unresolved)")
        switch story.policy {
        case "error":
            #expect(unresolved.contains(id("same", "a")), note)
            #expect(unresolved.contains(id("same", "number")), note)
            #expect(unresolved.contains(id("deleted", "object")), note)
            #expect(unresolved.contains(id("child", "parent")), note)
            #expect(!unresolved.contains(id("different", "a")), note)
            #expect(!unresolved.contains(id("different", "b")), note)
        case "errorByRow":
            for name in ["same", "different", "deleted", "child"] {
                #expect(unresolved.contains(id(name, "object")), note)
            }
        default: #expect(unresolved.isEmpty, note)
        }
        if story.policy.hasPrefix("error") {
            // A link's identity begins at the side whose name sorts first.
            let linked = story.uri("linked").split(separator: "/").last ?? ""
            #expect(unresolved.contains(id("friend", "friendOf.\(linked)")), note)
        }
    }
}
