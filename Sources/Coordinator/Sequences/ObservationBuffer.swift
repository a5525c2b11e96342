import Synchronization

/// The values that wait for the reader of a sequence. Adding never waits: a full buffer drops its earliest
/// values and counts them. Thread-safe.
final class ObservationBuffer<Value: Sendable>: Sendable {
    typealias Outcome = Result<Observed<Value>?, CoordinatorError>

    private struct State {
        var waiting: [(value: Value, size: Int)] = []
        var size = 0
        var missed = 0
        var isEnded = false
        var error: CoordinatorError?
        /// One, unless copies of an iterator are asked at the same time.
        var readers: [CheckedContinuation<Void, Never>] = []

        /// The next element, or the end; nil while there is neither.
        mutating func take() -> Outcome? {
            if waiting.isEmpty {
                guard isEnded else { return nil }
                defer { error = nil }
                return error.map { .failure($0) } ?? .success(nil)
            }
            let first = waiting.removeFirst()
            size -= first.size
            defer { missed = 0 }
            return .success(Observed(value: first.value, missed: missed))
        }

        mutating func dropFirst() {
            size -= waiting.removeFirst().size
            missed += 1
        }
    }

    private let state = Mutex(State())
    private let limit: Int
    private let sizeLimit: Int
    private let measure: @Sendable (Value) -> Int

    /// - Parameter measure: how many objects a value names.
    init(
        limit: Int = ObservationBounds.values, sizeLimit: Int = ObservationBounds.objects,
        measure: @escaping @Sendable (Value) -> Int
    ) {
        self.limit = limit
        self.sizeLimit = sizeLimit
        self.measure = measure
    }

    /// Adds a value, and drops the earliest where there is no room.
    func add(_ value: Value) {
        let size = measure(value)
        change { state in
            if state.isEnded { return }
            state.waiting.append((value, size))
            state.size += size
            while state.waiting.count > limit || state.size > sizeLimit && state.waiting.count > 1 {
                state.dropFirst()
            }
        }
    }

    /// Ends the sequence behind the values that wait.
    ///
    /// - Parameter error: what the reader gets then; nil for a plain end.
    func end(_ error: CoordinatorError? = nil) {
        change { state in
            if state.isEnded { return }
            state.isEnded = true
            state.error = error
        }
    }

    /// Ends the sequence at once: its reader wants no more.
    func cancel() {
        change { state in
            state.isEnded = true
            state.error = nil
            state.waiting = []
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let readers = state.withLock { state in
            body(&state)
            defer { state.readers = [] }
            return state.readers
        }
        for reader in readers { reader.resume() }
    }

    /// Waits for the next element. If the task is cancelled the sequence ends.
    func next() async -> Outcome {
        if Task.isCancelled { cancel() }
        while true {
            if let outcome = state.withLock({ $0.take() }) { return outcome }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isIdle = state.withLock { state in
                        guard state.waiting.isEmpty, !state.isEnded else { return false }
                        state.readers.append(continuation)
                        return true
                    }
                    if !isIdle { continuation.resume() }
                }
            } onCancel: {
                cancel()
            }
        }
    }
}

/// What observers add values through: the sequence ends when it is gone, and with it who observed.
final class ObservationFeed<Value: Sendable>: Sendable {
    private let buffer: ObservationBuffer<Value>

    init(_ buffer: ObservationBuffer<Value>) { self.buffer = buffer }

    func add(_ value: Value) { buffer.add(value) }

    deinit { buffer.end() }
}
