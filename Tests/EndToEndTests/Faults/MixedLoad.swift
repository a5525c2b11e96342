import Client
import Coordinator
import Node
import Synchronization

/// A save that was acknowledged, and what it was asked to do.
struct SaveRecord: Sendable {
    let node: Int
    let saveID: String
    /// Its dot; empty where nothing was left to save.
    let transaction: String
    /// What must be found in the transaction.
    let operations: [JSONValue]
}

/// Rows of every entity that all writers change.
struct SharedRows: Sendable {
    /// One row, and whether writers may delete it.
    struct Row: Sendable {
        let entity: String
        let uri: String
        let isMortal: Bool
    }

    let rows: [Row]

    /// Inserts the rows on node 1 and waits until all nodes have them.
    static func insert(in cluster: TestCluster, perEntity count: Int = 5) async throws -> SharedRows
    {
        var rows: [Row] = []
        for entity in TestModel.entities {
            let inserts = (0..<count).map {
                JSONValue.insert(entity, id: "@x\($0)", ["name": "shared \($0)", "a": "begin"])
            }
            let answer = try await cluster.node(1).save(inserts)
            for index in 0..<count {
                rows.append(
                    Row(
                        entity: entity, uri: try answer.uri("@x\(index)"),
                        isMortal: index == count - 1))
            }
        }
        try await cluster.waitForConvergence()
        return SharedRows(rows: rows)
    }
}

/// Writers that insert, change, link and delete rows under every policy, and objects with unique keys,
/// on one node each, until they are stopped. A node that does not answer is asked again.
final class MixedLoad: Sendable {
    /// What became of the saves so far.
    struct Outcome: Sendable {
        var acknowledged: [SaveRecord] = []
        var unanswered: [String] = []
        /// Refusals that are part of life: rows that are gone, conflicts that nobody has resolved.
        var refusedCount = 0
        /// Every other answer.
        var surprises: [String] = []
    }

    private struct State {
        var outcome = Outcome()
        var isStopped = false
    }

    private let state = Mutex(State())
    private let tasks: Mutex<[Task<Void, Never>]>
    private let rows: [SharedRows.Row]

    /// Begins with one writer a node.
    ///
    /// - Parameters:
    ///   - nodes: where to save.
    ///   - shared: the rows that all writers change.
    ///   - seed: decides what is saved.
    ///   - pause: how long each writer waits between two saves.
    init(
        on nodes: [NodeHandle], _ shared: SharedRows, seed: UInt64,
        pause: Duration = .milliseconds(5)
    ) throws {
        rows = shared.rows
        tasks = Mutex([])
        for node in nodes {
            let client = try node.makeClient()
            let generator = SeededGenerator(seed: seed &* 1000 &+ UInt64(node.number))
            let task = Task {
                await self.write(on: node, client, prefix: "s\(seed)", generator, pause: pause)
            }
            tasks.withLock { $0.append(task) }
        }
    }

    var outcome: Outcome { state.withLock { $0.outcome } }

    /// Makes no further saves and waits for the answers; gives what became of all.
    func stop() async -> Outcome {
        state.withLock { $0.isStopped = true }
        for task in tasks.withLock({ $0 }) { await task.value }
        return outcome
    }

    private func write(
        on node: NodeHandle, _ client: NodeClient, prefix: String,
        _ seeded: SeededGenerator, pause: Duration
    ) async {
        var generator = seeded
        var own: [(entity: String, uri: String)] = []
        var index = 0
        while !state.withLock({ $0.isStopped }) {
            let saveID = "\(prefix)-n\(node.number)-\(index)"
            index += 1
            let isKeyed = Int.random(in: 0..<4, using: &generator) == 0
            let keyed =
                isKeyed
                ? await KeyedWrites.operation(saveID, on: node, client, &generator) : nil
            let operations = keyed.map { [$0] } ?? operations(saveID, &own, &generator)
            let request: JSONObject = ["operations": .array(operations), "saveID": .string(saveID)]
            let answer = try? await node.ask(
                "POST", "/v1/save", .object(request), timeout: .seconds(15), using: client)
            // What is saved of an object with a key may be carried out on another one of its group.
            note(answer, node: node.number, saveID, keyed == nil ? operations : [])
            if answer?.status == 200, keyed == nil,
                let uri = answer?.body["ids"]?.object?["@new"]?.string,
                let entity = uri.split(separator: "/").dropLast().last
            {
                own.append((String(entity), uri))
                if own.count > 20 { own.removeFirst() }
            }
            try? await Task.sleep(for: answer == nil ? .milliseconds(50) : pause)
        }
        await client.close()
    }

    private func note(
        _ answer: (status: Int, body: JSONObject)?, node: Int, _ saveID: String,
        _ operations: [JSONValue]
    ) {
        state.withLock { state in
            switch answer?.status {
            case nil: state.outcome.unanswered.append(saveID)
            case 200:
                state.outcome.acknowledged.append(
                    SaveRecord(
                        node: node, saveID: saveID,
                        transaction: answer?.body.text("transaction") ?? "",
                        operations: operations))
            case 404, 409, 422: state.outcome.refusedCount += 1
            case let status?:
                // A node that is being stopped says so, and takes no saves any more.
                let code = answer?.body.code ?? ""
                state.outcome.surprises.append("\(saveID): \(status) \(code)")
            }
        }
    }

    /// What one save consists of: mostly changes of shared rows.
    private func operations(
        _ saveID: String, _ own: inout [(entity: String, uri: String)],
        _ generator: inout SeededGenerator
    ) -> [JSONValue] {
        let row = rows[Int.random(in: 0..<rows.count, using: &generator)]
        let others = rows.filter { $0.entity == row.entity && $0.uri != row.uri }
        let other = others[Int.random(in: 0..<others.count, using: &generator)]
        let text = JSONValue.string(saveID)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0...5:
            let values: JSONObject = ["name": text, "a": text, "parent": .string(row.uri)]
            return [.insert(row.entity, id: "@new", values)]
        case 6...10: return [.update(row.uri, ["a": text])]
        case 11...13:
            return [.update(row.uri, ["b": text]), .update(other.uri, ["a": text])]
        case 14: return [.update(row.uri, ["a": text, "parent": .string(other.uri)])]
        case 15: return [.link(row.uri, add: [other.uri])]
        case 16: return [.link(row.uri, remove: [other.uri])]
        case 17 where row.isMortal: return [.delete(row.uri)]
        case 17...18 where !own.isEmpty:
            let index = Int.random(in: 0..<own.count, using: &generator)
            return [.delete(own.remove(at: index).uri)]
        default:
            guard let mine = own.last else { return [.update(row.uri, ["b": text])] }
            return [.update(mine.uri, ["a": text, "b": text])]
        }
    }
}
