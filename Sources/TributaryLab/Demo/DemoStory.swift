import Console
import Coordinator
import Foundation
import Merge

/// The demo's steps, and their text.
struct DemoStory {
    let cluster: DemoCluster
    let data: DemoData
    let isColoured: Bool

    private let clock = ContinuousClock()

    // MARK: Telling

    private func say(_ text: String = "") throws { try Terminal.print(text) }

    private func title(_ text: String) throws {
        try say()
        try say(isColoured ? "\u{1B}[1;36m\(text)\u{1B}[0m" : text)
    }

    private func seconds(_ duration: Duration) -> String {
        let value =
            Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
        return String(format: "%.2f s", value)
    }

    // MARK: The story

    func tell() async throws {
        try title("1. Three nodes import the same machine's package database, each a third of it")
        try say("   \(data.description)")
        let saves = try await importPackages()

        try title("2. A reader pins a generation on each node; then the mesh is cut")
        let pins = try await pinGenerations()
        await cluster.cut()
        try say("   Every link is down. All three go on writing, over each other:")

        let written = try await writeApart()
        try await showPins(pins, "   while apart")

        try title("3. The links come back")
        let elapsed = try await healAndWait()
        try say("   Converged in \(seconds(elapsed)): three equal vectors, three equal digests.")
        try say("   \(written) saves were made apart; none had to wait for another node.")

        try title("4. What came up, and why each side won")
        try await explainConflicts()

        try title("5. One conflict that no policy decides, three-way, and its resolution")
        try await resolveOne()

        try title("6. The pinned readers, and the proof")
        try await showPins(pins, "   after all of this")
        try await showProof(saves: saves + written)
    }

    // MARK: Import

    private func importPackages() async throws -> Int {
        let begin = clock.now
        let first = cluster.nodes[0]
        // Maintainers and sections are shared, so one node makes them first: keys that hold
        // across nodes are not part of this release.
        for (entity, column) in [("Maintainer", "Maintainer"), ("Section", "Section")] {
            try await runImport(
                first,
                [
                    "--entity", entity, "--map", "\(column)=name", "--key", "name",
                ])
        }
        try await waitForConvergence()
        try await onAll { node in
            [
                "--entity", "Package", "--map", "Package=name", "--map", "Version=version",
                "--map", "Architecture=architecture", "--map", "Description=summary",
                "--map", "Installed-Size=installedSize", "--key", "name",
                "--reference", "Maintainer=maintainer:Maintainer.name",
                "--reference", "Section=section:Section.name", "--existing-only",
                "--part", "\(node.number)/3", "--batch", "25",
            ]
        }
        try await waitForConvergence()
        try await onAll { node in
            [
                "--entity", "Package", "--map", "Package=name", "--key", "name",
                "--reference", "Depends=dependencies:Package.name", "--existing-only",
                "--part", "\(node.number)/3", "--batch", "100",
            ]
        }
        let elapsed = try await waitForConvergence()
        for entity in ["Package", "Maintainer", "Section"] {
            var counts: [String] = []
            for node in cluster.nodes { counts.append(String(try await node.count(entity))) }
            try say(
                "   \(entity.padding(toLength: 11, withPad: " ", startingAt: 0))"
                    + counts.joined(separator: " / ") + "   on node 1 / 2 / 3")
        }
        let saves = try await transactionCount()
        try say(
            "   \(saves) saves in \(seconds(clock.now - begin)); all three nodes were equal "
                + "\(seconds(elapsed)) after the last.")
        return saves
    }

    private func onAll(_ arguments: (DemoNode) -> [String]) async throws {
        let program = cluster.program
        let path = data.path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in cluster.nodes {
                let arguments = arguments(node)
                group.addTask {
                    try await Self.runImport(program, node.url, path, arguments)
                }
            }
            try await group.waitForAll()
        }
    }

    private func runImport(_ node: DemoNode, _ arguments: [String]) async throws {
        try await Self.runImport(cluster.program, node.url, data.path, arguments)
    }

    private static func runImport(
        _ program: DemoProgram, _ url: String, _ path: String, _ arguments: [String]
    ) async throws {
        let all = ["import", path, "--format", "control", "--node", url, "--json"] + arguments
        let (status, output) = try await program.run(all)
        guard status == 0 else {
            throw DemoError("An import failed (exit code \(status)): \(output)")
        }
    }

    private func transactionCount() async throws -> Int {
        let vector = try await cluster.nodes[0].status()["vector"]?.object
        return (vector?.members ?? []).reduce(0) { $0 + Int($1.value.integer ?? 0) }
    }

    // MARK: Pins

    private struct Pin {
        let node: DemoNode
        let token: String
        let packages: Int
    }

    private func pinGenerations() async throws -> [Pin] {
        var pins: [Pin] = []
        for node in cluster.nodes {
            let answer = try await node.ask(
                "POST", "/v1/generations", .object(["leaseSeconds": .integer(300)]))
            let token = answer.text("token")
            let packages = try await node.count("Package", generation: token)
            try say(
                "   Node \(node.number) pins generation \(answer["generation"]?.integer ?? 0): "
                    + "\(packages) packages.")
            pins.append(Pin(node: node, token: token, packages: packages))
        }
        return pins
    }

    private func showPins(_ pins: [Pin], _ when: String) async throws {
        var texts: [String] = []
        for pin in pins {
            let now = try await pin.node.count("Package")
            let pinned = try await pin.node.count("Package", generation: pin.token)
            guard pinned == pin.packages else {
                throw DemoError("A pinned generation changed on node \(pin.node.number)!")
            }
            texts.append("node \(pin.node.number) still \(pinned), newest \(now)")
        }
        try say("\(when) the pinned readers count packages: " + texts.joined(separator: "; ") + ".")
    }

    // MARK: Writing apart

    private func writeApart() async throws -> Int {
        let first = cluster.nodes[0]
        let packages = try await first.objects("Package", sort: "name", limit: 60)
        let maintainers = try await first.objects("Maintainer", sort: "name", limit: 6)
        let sections = try await first.objects("Section", sort: "name", limit: 6)
        let total = try await withThrowingTaskGroup(of: Int.self) { group in
            for node in cluster.nodes {
                group.addTask {
                    try await Self.write(node, packages, maintainers, sections)
                }
            }
            return try await group.reduce(0, +)
        }
        for line in [
            "   Package (store-trumps):     20 summaries, each rewritten on all three nodes;",
            "                               5 packages deleted on node 3 while 1 and 2 edit them",
            "   Section (object-trumps):    \(sections.count) notes, each rewritten on all three",
            "   Maintainer (error):         \(maintainers.count) phone numbers, each on two nodes",
            "   and 10 new packages on each node. \(total) saves in all.",
        ] { try say(line) }
        return total
    }

    private static func write(
        _ node: DemoNode, _ packages: [JSONObject], _ maintainers: [JSONObject],
        _ sections: [JSONObject]
    ) async throws -> Int {
        let author = ["ada", "ben", "cleo"][node.number - 1]
        var saves = 0
        func update(_ object: JSONObject, _ values: JSONObject) async throws {
            _ = try await node.save(
                [.object(["update": .string(object.text("id")), "values": .object(values)])],
                author: author)
            saves += 1
        }
        for package in packages.prefix(20) {
            try await update(
                package, ["summary": .string("\(author)'s words from node \(node.number)")])
        }
        for package in packages.dropFirst(20).prefix(5) {
            if node.number == 3 {
                _ = try await node.save(
                    [.object(["delete": .string(package.text("id"))])], author: author)
                saves += 1
            } else {
                try await update(package, ["installedSize": .integer(Int64(1000 * node.number))])
            }
        }
        for section in sections {
            try await update(section, ["note": .string("\(author)'s note")])
        }
        if node.number != 3 {
            for maintainer in maintainers {
                try await update(maintainer, ["phone": .string("+49 30 55500\(node.number)")])
            }
        }
        for number in 1...10 {
            _ = try await node.save(
                [
                    .object([
                        "insert": .string("Package"), "id": .string("@new"),
                        "values": .object([
                            "name": .string("demo-\(author)-\(number)"),
                            "version": .string("1.\(number)"),
                        ]),
                    ])
                ], author: author)
            saves += 1
        }
        return saves
    }

    // MARK: Converging

    private func healAndWait() async throws -> Duration {
        let begin = clock.now
        await cluster.heal()
        try await waitForConvergence()
        return clock.now - begin
    }

    /// Waits until all nodes have equal vectors and equal digests.
    @discardableResult
    private func waitForConvergence() async throws -> Duration {
        let begin = clock.now
        while clock.now - begin < .seconds(30) {
            var states = Set<JSONObject>()
            for node in cluster.nodes {
                let status = try await node.status()
                states.insert([
                    "vector": status["vector"] ?? .null, "digest": status["digest"] ?? .null,
                ])
            }
            if states.count == 1 { return clock.now - begin }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw DemoError("The nodes did not become equal within 30 s.")
    }

    // MARK: Conflicts

    private func explainConflicts() async throws {
        let node = cluster.nodes[1]
        let all = try await node.conflicts("state=all&limit=1000")
        let open = all.filter { $0["open"]?.boolean ?? false }
        var groups: [(key: String, members: [JSONObject])] = []
        for conflict in open {
            let key = [
                conflict.text("entity"), conflict.text("kind"), conflict.text("state"),
            ].joined(separator: " ")
            if let index = groups.firstIndex(where: { $0.key == key }) {
                groups[index].members.append(conflict)
            } else {
                groups.append((key, [conflict]))
            }
        }
        for (_, members) in groups.sorted(by: { $0.key < $1.key }) {
            guard let sample = members.first else { continue }
            let policy = sample.text("policy")
            try say(
                "   \(members.count) \(sample.text("state")) \(sample.text("kind")) "
                    + "conflict\(members.count == 1 ? "" : "s") of \(sample.text("entity")) "
                    + "(\(policy))")
            try say("      \(sample["reason"]?.object?.text("text") ?? "")")
            for side in (sample["sides"]?.array ?? []).compactMap(\.object) {
                try say("      " + describe(side))
            }
        }
    }

    private func describe(_ side: JSONObject) -> String {
        let mark = side["visible"]?.boolean ?? false ? "► " : "  "
        let who = "node \(side["node"]?.integer ?? 0), \(side["author"]?.string ?? "?")"
        let what: String
        if side["deleted"]?.boolean ?? false {
            what = "deleted it"
        } else {
            what = side["value"].map { JSONWriter.text(of: $0) } ?? ""
        }
        return "\(mark)\(who.padding(toLength: 14, withPad: " ", startingAt: 0)) \(what)"
    }

    private func resolveOne() async throws {
        let node = cluster.nodes[2]
        let unresolved = try await node.conflicts("state=unresolved&entity=Maintainer&limit=100")
        guard let id = unresolved.last?.text("id") else {
            throw DemoError("There is no unresolved conflict to show.")
        }
        let shown = try await cluster.program.run(["conflicts", "show", id, "--node", node.url])
        for line in shown.output.split(separator: "\n", omittingEmptySubsequences: false) {
            try say("   \(line)")
        }
        let conflict = try await node.ask("GET", "/v1/conflicts/\(id)")
        let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
        guard let chosen = sides.last?.text("dot") else {
            throw DemoError("The conflict \(id) has no sides.")
        }
        let seen = sides.map { $0.text("dot") }.joined(separator: ",")
        try say("   $ tributary conflicts resolve \(id) --side \(chosen) --seen \(seen)")
        let (status, output) = try await cluster.program.run([
            "conflicts", "resolve", id, "--side", chosen, "--seen", seen, "--node", node.url,
        ])
        guard status == 0 else { throw DemoError("It could not be resolved: \(output)") }
        try await waitForConvergence()
        var left: [String] = []
        for node in cluster.nodes {
            left.append(
                String(try await node.conflicts("state=unresolved&limit=1000").count))
        }
        try say(
            "   Resolved on node 3, an ordinary save. Unresolved conflicts left on node 1 / 2 / 3: "
                + left.joined(separator: " / ") + " (were \(unresolved.count)).")
    }

    // MARK: Proof

    private func showProof(saves: Int) async throws {
        for node in cluster.nodes {
            let status = try await node.status()
            let report = try await node.ask("POST", "/v1/verify")
            let digest = status.text("digest")
            let isOK = report["ok"]?.boolean ?? false
            try say(
                "   Node \(node.number): digest \(digest), recomputed from its rows: "
                    + (isOK ? "equal" : "DIFFERENT"))
            guard isOK else { throw DemoError("Node \(node.number) does not verify.") }
        }
        try say("   \(try await transactionCount()) saves in all, every one of them on every node.")
    }
}
