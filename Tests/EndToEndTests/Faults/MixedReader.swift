import Client
import Coordinator
import Merge
import Node
import Synchronization

/// A reader that asks one node after the other, drawn by its seed, until it is stopped: for all
/// objects of an entity, for how many there are, and now and then twice for those of a pinned
/// generation. What it hears is judged later, when all saves are known.
///
/// A node that does not answer is skipped; that a pin is gone, as after a restart, is part of life.
final class MixedReader: Sendable {
    /// What was heard so far.
    struct Outcome: Sendable {
        // Each is a whole entity, and the oracle computes each from all saves up to its vector, in
        // time that grows faster than these: a soak has ten times the saves and the readings.
        var readings = EvenSample<Reading>(capacity: 100)
        var pins = EvenSample<PinnedReading>(capacity: 20)
        var unansweredCount = 0
        /// Pins that were gone before they were read twice.
        var expiredCount = 0
        /// Every other answer.
        var surprises: [String] = []
    }

    /// A pinned generation that has been read once.
    private struct Pin {
        let token: String
        let vector: VersionVector
        let first: Reading
        /// How much else is read before it is read again.
        var remaining: Int
    }

    private struct State {
        var outcome = Outcome()
        var isStopped = false
    }

    private let state = Mutex(State())
    private let task = Mutex<Task<Void, Never>?>(nil)
    private let nodes: [NodeHandle]
    private let clients: [NodeClient]

    /// Begins to read.
    ///
    /// - Parameter pause: how long it waits between two steps.
    init(on nodes: [NodeHandle], seed: UInt64, pause: Duration = .milliseconds(50)) throws {
        self.nodes = nodes
        clients = try nodes.map { try $0.makeClient() }
        task.withLock {
            $0 = Task { await self.read(SeededGenerator(seed: seed ^ 0x5EED), pause) }
        }
    }

    var outcome: Outcome { state.withLock { $0.outcome } }

    /// Whether there is something of every kind to be judged.
    var hasReadEnough: Bool {
        let outcome = outcome
        return outcome.readings.count >= 20 && outcome.pins.count > 0
    }

    /// Asks no further questions and waits for the last answer; gives what was heard.
    func stop() async -> Outcome {
        state.withLock { $0.isStopped = true }
        await task.withLock({ $0 })?.value
        return outcome
    }

    private func read(_ seeded: SeededGenerator, _ pause: Duration) async {
        var generator = seeded
        var pin: Pin?
        while !state.withLock({ $0.isStopped }) {
            let place = Int.random(in: 0..<nodes.count, using: &generator)
            let entities = TestModel.entities + TestModel.keyed
            let entity = entities[Int.random(in: 0..<entities.count, using: &generator)]
            let kind = Int.random(in: 0..<8, using: &generator)
            let length = Int.random(in: 1...4, using: &generator)
            if let held = pin, held.remaining == 0 {
                await readAgain(held)
                pin = nil
            } else if pin == nil, kind < 2 {
                pin = await readPinned(entity, place, length)
            } else {
                pin?.remaining -= 1
                if let reading = await reading(entity, place, isCount: kind == 7) {
                    state.withLock { $0.outcome.readings.append(reading) }
                }
            }
            try? await Task.sleep(for: pause)
        }
        if let pin { await readAgain(pin) }
        for client in clients { await client.close() }
    }

    // MARK: - Pinned generations

    private func readPinned(_ entity: String, _ place: Int, _ length: Int) async -> Pin? {
        let request: JSONValue = ["leaseSeconds": 30]
        guard let answer = await answer("POST", "/v1/generations", request, of: place) else {
            return nil
        }
        let token = answer.text("token")
        guard let vector = VersionVector(json: answer["vector"]), !token.isEmpty else {
            note(surprise: "a pin of node \(nodes[place].number): \(answer)")
            return nil
        }
        guard let first = await reading(entity, place, pinned: token) else { return nil }
        return Pin(token: token, vector: vector, first: first, remaining: length)
    }

    private func readAgain(_ pin: Pin) async {
        guard let place = nodes.firstIndex(where: { $0.number == pin.first.node }) else { return }
        if let second = await reading(pin.first.entity, place, pinned: pin.token) {
            let pinned = PinnedReading(vector: pin.vector, first: pin.first, second: second)
            state.withLock { $0.outcome.pins.append(pinned) }
        }
        _ = await answer(
            "DELETE", "/v1/generations/\(pin.token)", nil, of: place, mayBeExpired: true)
    }

    // MARK: - Questions

    private func reading(
        _ entity: String, _ place: Int, isCount: Bool = false, pinned token: String? = nil
    ) async -> Reading? {
        let question = Reading.question(entity, isCount: isCount, generation: token)
        guard
            let answer = await answer(
                "POST", "/v1/fetch", question, of: place, mayBeExpired: token != nil)
        else { return nil }
        let number = nodes[place].number
        let reading = Reading(node: number, entity: entity, answer)
        if reading == nil { note(surprise: "\(entity) of node \(number): \(answer)") }
        return reading
    }

    /// An answer of the node; nil where there is none, or the pin is gone.
    private func answer(
        _ method: String, _ path: String, _ body: JSONValue?, of place: Int,
        mayBeExpired: Bool = false
    ) async -> JSONObject? {
        let node = nodes[place]
        do {
            // One that stands still would keep the reader from all others.
            let (status, answer) = try await node.ask(
                method, path, body, timeout: .seconds(1), using: clients[place])
            if status == 200 { return answer }
            let code = answer.code
            if status == 410, code == "queryGenerationExpired", mayBeExpired {
                if method == "POST" { state.withLock { $0.outcome.expiredCount += 1 } }
            } else {
                note(surprise: "\(method) \(path) of node \(node.number): \(status) \(code)")
            }
        } catch let error as ClientError where error.isNoAnswer {
            state.withLock { $0.outcome.unansweredCount += 1 }
        } catch {
            note(surprise: "\(method) \(path) of node \(node.number): \(error)")
        }
        return nil
    }

    private func note(surprise: String) {
        state.withLock { $0.outcome.surprises.append(surprise) }
    }
}
