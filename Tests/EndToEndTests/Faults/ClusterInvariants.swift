import Coordinator
import Testing

/// What must hold of a cluster once it is whole again, whatever has happened to it.
///
/// 1. All nodes come to equal vectors, with equal digests, contents and unresolved conflicts, and
///    each finds its digest right.
/// 2. Every log has every dot once, without gaps up to the vector, and all logs have the same
///    content under it.
/// 3. Every acknowledged save is in the logs under the dot of its answer, with what was asked.
/// 4. Every write to an object without unique keys is visible, overwritten by one that had seen it, or in
///    the conflict journal: in each node's own, for of what is over each has witnessed other things.
/// 5. A conflict that is open on one node is open on all, or was closed there by no transaction:
///    each learns in its own time that all its sides are stable.
/// 6. What was read meanwhile is what the oracle computes from the set of saves at the reading's own
///    vector, a pinned generation was the same both times it was read, and the contents and the
///    unresolved conflicts of every node are those that the oracle computes from all saves.
struct ClusterInvariants {
    let cluster: TestCluster
    /// Saves that were acknowledged.
    let records: [SaveRecord]

    /// What was found, for a line in the run's output.
    struct Summary: CustomStringConvertible {
        var transactionCount = 0
        var acknowledgedCount = 0
        var visibleCount = 0
        var overwrittenCount = 0
        var journalledCount = 0
        /// Readings that were compared with the oracle: those made meanwhile, those of pinned
        /// generations, and those of the final contents.
        var readingCount = 0
        var pinCount = 0
        var finalCount = 0

        var description: String {
            "\(transactionCount) transactions, \(acknowledgedCount) acknowledged saves, writes by "
                + "all nodes' word: \(visibleCount) visible, \(overwrittenCount) overwritten, "
                + "\(journalledCount) in the journal; compared with the oracle: \(readingCount) "
                + "readings, \(pinCount) pins read twice, \(finalCount) readings at the end"
        }
    }

    /// Waits for convergence and checks everything.
    ///
    /// - Parameter heard: what a reader was answered before.
    @discardableResult
    static func expect(
        _ cluster: TestCluster, _ records: [SaveRecord],
        heard: MixedReader.Outcome = MixedReader.Outcome(), timeout: Duration = .seconds(60),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Summary {
        try await cluster.waitForConvergence(timeout: timeout)
        try await expectEqualContents(cluster, sourceLocation: sourceLocation)
        let invariants = ClusterInvariants(cluster: cluster, records: records)
        var summary = Summary()
        let entries = try await invariants.expectEqualLogs(sourceLocation)
        summary.transactionCount = entries.count
        summary.acknowledgedCount = records.count
        invariants.expectAcknowledged(entries, sourceLocation)
        var journals: [[JSONObject]] = []
        let objects = try await invariants.visibleObjects()
        for node in cluster.nodes {
            let journal = try await invariants.journal(of: node)
            invariants.expectExplained(
                entries, objects, by: journal, of: node, &summary, sourceLocation)
            journals.append(journal)
        }
        invariants.expectSameConflicts(journals, sourceLocation)
        #expect(heard.surprises == [], sourceLocation: sourceLocation)
        summary.finalCount = try await invariants.expectOracle(heard, sourceLocation)
        summary.readingCount = heard.readings.elements.count
        summary.pinCount = heard.pins.elements.count
        return summary
    }

    // MARK: - Logs

    private func expectEqualLogs(
        _ sourceLocation: SourceLocation
    ) async throws -> [NodeHistory.Entry] {
        var first: [String: String] = [:]
        var entries: [NodeHistory.Entry] = []
        for node in cluster.nodes {
            var history = NodeHistory()
            try await history.read(from: node)
            var texts: [String: String] = [:]
            for entry in history.entries {
                #expect(
                    texts.updateValue(entry.text, forKey: entry.dot) == nil,
                    "Node \(node.number) has \(entry.dot) twice", sourceLocation: sourceLocation)
            }
            try await expectNoGaps(history, on: node, sourceLocation)
            if node.number == 1 {
                (first, entries) = (texts, history.entries)
                continue
            }
            let different = Set(texts.keys).union(first.keys).filter { texts[$0] != first[$0] }
            #expect(
                different.isEmpty,
                """
                Node \(node.number) and node 1 differ in \(different.count) transactions, as in \
                \(different.sorted().prefix(2).map { [first[$0] ?? "-", texts[$0] ?? "-"] })
                """, sourceLocation: sourceLocation)
        }
        return entries
    }

    private func expectNoGaps(
        _ history: NodeHistory, on node: NodeHandle, _ sourceLocation: SourceLocation
    ) async throws {
        var counts: [String: Int64] = [:]
        for entry in history.entries {
            guard let (actor, sequence) = NodeHistory.parts(of: entry.dot) else {
                throw EndToEndError("\(entry.dot) is no dot")
            }
            counts[actor, default: 0] += 1
            #expect(
                counts[actor] == sequence, "Node \(node.number) has \(entry.dot) out of order",
                sourceLocation: sourceLocation)
        }
        let vector = try await node.position().vector.filter { $0.value > 0 }
        #expect(vector == counts, sourceLocation: sourceLocation)
    }

    // MARK: - Acknowledged saves

    private func expectAcknowledged(
        _ entries: [NodeHistory.Entry], _ sourceLocation: SourceLocation
    ) {
        let byDot = Dictionary(entries.map { ($0.dot, $0) }) { first, _ in first }
        for record in records where !record.transaction.isEmpty {
            guard let entry = byDot[record.transaction] else {
                Issue.record(
                    "\(record.saveID) was acknowledged as \(record.transaction), which is lost",
                    sourceLocation: sourceLocation)
                continue
            }
            #expect(
                entry.saveID == record.saveID, "\(record.transaction) names two saves",
                sourceLocation: sourceLocation)
            for operation in record.operations.compactMap(\.object) {
                let isThere = entry.changes.contains { Self.carriesOut(operation, $0) }
                #expect(
                    isThere,
                    "\(entry.text) lacks \(JSONWriter.text(of: .object(operation)))",
                    sourceLocation: sourceLocation)
            }
        }
    }

    /// Whether a change is that of an operation; links that were there already change nothing.
    private static func carriesOut(_ operation: JSONObject, _ change: JSONObject) -> Bool {
        if operation["add"] != nil || operation["remove"] != nil { return true }
        if let deleted = operation["delete"]?.string {
            return change.text("kind") == "delete" && change.text("object") == deleted
        }
        if let updated = operation["update"]?.string, change.text("object") != updated {
            return false
        }
        guard ["insert", "update"].contains(change.text("kind")) else { return false }
        // Texts are the save's own, so that they always change something.
        return ["a", "b", "name"].allSatisfy { name in
            guard let wanted = operation.value(name) else { return true }
            return change.value(name) == wanted
        }
    }

    // MARK: - What became of every write

    private func expectExplained(
        _ entries: [NodeHistory.Entry], _ objects: [String: JSONObject],
        by conflicts: [JSONObject], of node: NodeHandle, _ summary: inout Summary,
        _ sourceLocation: SourceLocation
    ) {
        var writes: [String: [WriteFate.Write]] = [:]
        for entry in entries {
            for change in entry.changes
            where change["add"] == nil && change["remove"] == nil && Self.isPlain(change) {
                writes[change.text("object"), default: []].append(
                    WriteFate.Write(entry: entry, change: change))
            }
        }
        let journal = Self.journalled(conflicts)
        for (uri, all) in writes.sorted(by: { $0.key < $1.key }) {
            for write in all {
                let fate = WriteFate(
                    of: write, among: all, objects: objects, journal: journal[uri] ?? .init())
                switch fate {
                case .visible: summary.visibleCount += 1
                case .overwritten: summary.overwrittenCount += 1
                case .journalled: summary.journalledCount += 1
                case .lost(let what):
                    let shown = objects[uri].map { JSONWriter.text(of: .object($0)) } ?? "gone"
                    Issue.record(
                        """
                        \(what) of \(write.entry.saveID) (\(write.entry.dot)) is lost at \(uri), \
                        which is \(shown); the journal of node \(node.number) has \
                        \((journal[uri]?.dots ?? []).sorted()), and its writes are \
                        \(all.map(\.description))
                        """, sourceLocation: sourceLocation)
                }
            }
        }
    }

    /// Whether the object has no unique key, and is no other one's alone: what readers see of those hangs
    /// on more than its own writes, and is for the oracle to judge.
    private static func isPlain(_ change: JSONObject) -> Bool {
        let entity = change.text("object").split(separator: "/").dropLast().last
        return entity.map { TestModel.entities.contains(String($0)) } ?? true
    }

    /// What a node's journal has, open and closed.
    private func journal(of node: NodeHandle) async throws -> [JSONObject] {
        return try await node.conflicts("state=all&limit=10000")
    }

    /// The same by object.
    private static func journalled(_ conflicts: [JSONObject]) -> [String: WriteFate.Journal] {
        var result: [String: WriteFate.Journal] = [:]
        for conflict in conflicts {
            for side in conflict.objects("sides") {
                let object = conflict.text("object")
                result[object, default: .init()].dots.insert(side.text("dot"))
                if let row = side["value"]?.object { result[object]?.rows.append(row) }
            }
        }
        return result
    }

    // MARK: - Open conflicts

    /// Of those that nobody has resolved all that they tell is compared with the contents.
    private func expectSameConflicts(_ journals: [[JSONObject]], _ sourceLocation: SourceLocation) {
        // No transaction has ended what is open, either.
        let told = journals.map { journal in
            Set(journal.filter { $0["closedBy"] == .null }.map { Self.dispute($0) })
        }
        for (node, journal) in zip(cluster.nodes, journals) {
            let open = Set(journal.filter { $0["open"]?.boolean == true }.map { Self.dispute($0) })
            for (other, told) in zip(cluster.nodes, told) {
                let missing = open.subtracting(told)
                #expect(
                    missing.isEmpty,
                    """
                    Node \(other.number) tells nothing of \(missing.count) conflicts that are open \
                    on node \(node.number), such as \(missing.sorted().prefix(2))
                    """, sourceLocation: sourceLocation)
            }
        }
    }

    /// What a conflict is about, and between whom; the same whether it is open or closed.
    private static func dispute(_ conflict: JSONObject) -> String {
        let subject = conflict.text("id").prefix { $0 != "@" }
        let dots = (conflict["sides"]?.array ?? []).map { $0.object?.text("dot") ?? "" }
        return "\(subject) \(dots.sorted())"
    }

    private func visibleObjects() async throws -> [String: JSONObject] {
        var result: [String: JSONObject] = [:]
        for entity in TestModel.entities {
            for object in try await cluster.node(1).objects(entity) {
                result[object.text("id")] = object
            }
        }
        return result
    }
}
