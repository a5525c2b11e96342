import Client
import Coordinator
import Node
import Synchronization
import TestSupport
import Testing

/// Clients that save on one node, one save after the other, until they are stopped.
///
/// Every save inserts objects under a save ID of its own, so that afterwards each can be asked for.
final class Load: Sendable {
    /// What became of the saves so far.
    struct Outcome: Sendable {
        /// Save IDs that were answered with 200.
        var acknowledged: [String] = []
        /// Save IDs that got no answer.
        var unanswered: [String] = []
        /// What was answered instead of 200.
        var refusals: [String] = []
        /// The longest that an answer took.
        var longest = Duration.zero
    }

    private struct State {
        var outcome = Outcome()
        var isStopped = false
    }

    private let state = Mutex(State())
    private let tasks: Mutex<[Task<Void, Never>]>

    /// Begins.
    ///
    /// - Parameters:
    ///   - node: where to save.
    ///   - prefix: what all save IDs begin with; nobody else's may.
    ///   - clients: how many connections.
    ///   - limit: how many saves each client makes at most.
    ///   - pause: how long each client waits between two saves.
    ///   - operations: what a save consists of, by its ID; by default three inserts.
    init(
        on node: NodeHandle, prefix: String, clients: Int = 2, limit: Int = .max,
        pause: Duration = .zero,
        operations: @escaping @Sendable (String, Int) -> [JSONValue] = Load.inserts
    ) throws {
        tasks = Mutex([])
        for client in 1...clients {
            let connection = try node.makeClient()
            let task = Task {
                await self.run(
                    node, connection, "\(prefix)-\(client)", limit: limit, pause: pause,
                    operations)
            }
            tasks.withLock { $0.append(task) }
        }
    }

    /// Three objects that bear the save's ID, to tell whether all or none are there.
    static func inserts(_ saveID: String, _ index: Int) -> [JSONValue] {
        (0..<3).map {
            .insert(
                "Latest",
                [
                    "name": "\(saveID)-\($0)", "a": .string(saveID),
                    "number": .integer(Int64(index)),
                ])
        }
    }

    private func run(
        _ node: NodeHandle, _ connection: NodeClient, _ prefix: String, limit: Int,
        pause: Duration, _ operations: @Sendable (String, Int) -> [JSONValue]
    ) async {
        var index = 0
        while index < limit, !state.withLock({ $0.isStopped }) {
            let saveID = "\(prefix)-\(index)"
            let request: JSONObject = [
                "operations": .array(operations(saveID, index)), "saveID": .string(saveID),
            ]
            let begin = ContinuousClock.now
            let answer = try? await node.ask(
                "POST", "/v1/save", .object(request), timeout: .seconds(60), using: connection)
            let took = ContinuousClock.now - begin
            state.withLock { state in
                state.outcome.longest = max(state.outcome.longest, took)
                switch answer?.status {
                case nil:
                    state.outcome.unanswered.append(saveID)
                    // The node is gone; what comes would only find it gone as well.
                    state.isStopped = true
                case 200: state.outcome.acknowledged.append(saveID)
                default:
                    state.outcome.refusals.append(
                        "\(saveID): " + JSONWriter.text(of: .object(answer?.body ?? [:])))
                }
            }
            index += 1
            if pause > .zero { try? await Task.sleep(for: pause) }
        }
        await connection.close()
    }

    /// What became of the saves so far.
    var outcome: Outcome { state.withLock { $0.outcome } }

    /// Waits until so many saves were acknowledged.
    func waitForAcknowledged(_ count: Int, timeout: Duration = .seconds(60)) async throws {
        try await eventually(
            "\(count) saves were acknowledged: \(outcome.acknowledged.count) are, "
                + "\(outcome.unanswered.count) had no answer, \(outcome.refusals.prefix(2))",
            within: timeout, every: .milliseconds(5)
        ) {
            outcome.acknowledged.count >= count
        }
    }

    /// Makes no further saves and waits for the answers; gives what became of all.
    @discardableResult
    func stop() async -> Outcome {
        state.withLock { $0.isStopped = true }
        return await finish()
    }

    /// Makes no further saves, and expects that each was acknowledged, in a time; gives their number.
    @discardableResult
    func stopWhole(
        within time: Duration = .seconds(300), sourceLocation: SourceLocation = #_sourceLocation
    ) async -> Int {
        let outcome = await stop()
        #expect(outcome.refusals == [] && outcome.unanswered == [], sourceLocation: sourceLocation)
        #expect(outcome.longest < time, sourceLocation: sourceLocation)
        return outcome.acknowledged.count
    }

    /// Waits until every client has made all its saves; gives what became of them.
    @discardableResult
    func finish() async -> Outcome {
        for task in tasks.withLock({ $0 }) { await task.value }
        return outcome
    }
}
