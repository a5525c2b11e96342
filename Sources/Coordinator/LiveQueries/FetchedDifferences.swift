import Merge
import Synchronization

extension ManagedObjectContext {
    /// The results of a request as a sequence of differences between lists of IDs. Usable from any
    /// task.
    ///
    ///     for try await difference in context.differences(of: request) {
    ///         ids = ids.applying(difference) ?? ids
    ///     }
    ///
    /// The first difference inserts all results, also if there are none. Each later one leads from
    /// the state before to the newest state. A slow consumer misses no change: what happens before
    /// it asks comes as one difference. For that the list of IDs that it has is kept, and nothing
    /// else. An object that is changed and stays in its place makes no difference. One that moves
    /// is removed and inserted, and the two name each other. One that is saved for the first time
    /// is removed with its temporary ID and inserted with its permanent ID.
    ///
    /// The sequence follows the context's own changes, at the end of each event, and those that it
    /// merges. Set ``automaticallyMergesChangesFromParent`` for saves of other contexts and of other
    /// nodes to be among them.
    ///
    /// It ends if its task is cancelled, and if nobody keeps the context alive. It does not do so
    /// itself. Each iteration has its own state.
    ///
    /// - Parameter request: As for ``FetchedResultsController``, but it needs no sort descriptor.
    ///   Without one the order is that of IDs.
    public func differences(of request: FetchRequest) -> FetchedDifferences {
        FetchedDifferences(context: WeakContext(self), request: request)
    }
}

/// The differences between successive results of a request; see
/// ``ManagedObjectContext/differences(of:)``. Iterating throws ``CoordinatorError``, as
/// ``ManagedObjectContext/fetch(_:)``, and ends with it.
public struct FetchedDifferences: AsyncSequence, Sendable {
    /// A difference between two lists of IDs.
    public typealias Element = CollectionDifference<ManagedObjectID>

    let context: WeakContext
    let request: FetchRequest

    /// Begins to follow with the first element.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(context: context, request: request)
    }

    /// Follows the results.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let context: WeakContext
        private let request: FetchRequest
        private var subscription: Subscription?
        private var isDone = false

        init(context: WeakContext, request: FetchRequest) {
            self.context = context
            self.request = request
        }

        /// The next difference, as soon as there is one; nil at the end.
        ///
        /// - Throws: ``CoordinatorError``: `malformed` for a request of anything but objects with
        ///   pending changes, and as ``ManagedObjectContext/fetch(_:)``.
        public mutating func next() async throws -> CollectionDifference<ManagedObjectID>? {
            if isDone { return nil }
            do {
                if let difference = try await difference() { return difference }
            } catch {
                end()
                throw error
            }
            end()
            return nil
        }

        private mutating func end() {
            isDone = true
            subscription = nil
        }

        private mutating func difference() async throws -> Element? {
            guard let subscription else { return try await begin() }
            while try await subscription.signal.wait() {
                guard let context = context.value else { return nil }
                let number = subscription.number
                let difference = await context.perform {
                    context.graph.live.source(number)?.take()
                }
                if let difference, !difference.isEmpty { return difference }
            }
            return nil
        }

        private mutating func begin() async throws -> Element? {
            guard !Task.isCancelled, let context = context.value else { return nil }
            let (request, signal) = (request, DifferenceSignal())
            let (number, first) = try await context.perform {
                let source = try DifferenceSource(request, context, signal)
                return (context.graph.live.add(source), source.take())
            }
            subscription = Subscription(context: self.context, number: number, signal: signal)
            return first
        }
    }

    /// Ends following when the iterator is gone.
    private final class Subscription: Sendable {
        let context: WeakContext
        let number: Int
        let signal: DifferenceSignal

        init(context: WeakContext, number: Int, signal: DifferenceSignal) {
            self.context = context
            self.number = number
            self.signal = signal
        }

        deinit {
            let number = number
            guard let context = context.value else { return }
            context.perform { [weak context] in context?.graph.live.removeSource(number) }
        }
    }
}

/// The results behind a sequence of differences. Belongs to the context's queue.
final class DifferenceSource: LiveQuery {
    private let results: LiveResults
    private let signal: DifferenceSignal
    /// What the consumer has.
    private var taken: [ManagedObjectID] = []

    init(
        _ request: FetchRequest, _ context: ManagedObjectContext, _ signal: DifferenceSignal
    ) throws {
        guard request.resultType == .objects, request.includesPendingChanges else {
            throw CoordinatorError(
                .malformed,
                "Differences of \(request.entityName) are of objects with pending changes, not of "
                    + "\(request.resultType.rawValue) or with includesPendingChanges = false.")
        }
        results = try LiveResults(request, hasSections: false, context: context)
        self.signal = signal
    }

    /// The context is gone.
    deinit { signal.end() }

    func follow(_ touches: LiveTouches) {
        do {
            if try results.update(touches).changesIDs { signal.raise() }
        } catch {
            signal.fail(
                error as? CoordinatorError ?? CoordinatorError(.inputOutput, "\(error)"))
        }
    }

    /// The difference between what the consumer has and the newest results.
    func take() -> CollectionDifference<ManagedObjectID>? {
        let now = results.entries.map(\.object.objectID)
        let difference = ListDifference.between(taken, now)
        taken = now
        return difference
    }
}

/// Tells a consumer that there is something to take; any number of times before it looks count as
/// one. Thread-safe.
final class DifferenceSignal: Sendable {
    private struct State {
        var isRaised = false
        var isEnded = false
        var error: CoordinatorError?
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    func raise() { change { $0.isRaised = true } }
    func end() { change { $0.isEnded = true } }
    func fail(_ error: CoordinatorError) { change { $0.error = $0.error ?? error } }

    private func change(_ body: (inout State) -> Void) {
        let waiter = state.withLock { state in
            body(&state)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Waits until there is something to take.
    ///
    /// - Returns: false if the context is gone or the task is cancelled.
    /// - Throws: What the results could not follow for.
    func wait() async throws -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isRaised || state.isEnded || state.error != nil { return true }
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            end()
        }
        return try state.withLock { state in
            if state.isEnded { return false }
            if let error = state.error { throw error }
            state.isRaised = false
            return true
        }
    }
}

/// Differences between lists without repetitions, in time that grows with n log n. The standard
/// library's takes the square of it for lists with little in common.
enum ListDifference {
    /// The elements that stay are a longest run in the same order; the others move.
    static func between<Element: Hashable>(
        _ old: [Element], _ new: [Element]
    ) -> CollectionDifference<Element>? {
        var start = 0
        while start < min(old.count, new.count), old[start] == new[start] { start += 1 }
        var (oldEnd, newEnd) = (old.count, new.count)
        while oldEnd > start, newEnd > start, old[oldEnd - 1] == new[newEnd - 1] {
            oldEnd -= 1
            newEnd -= 1
        }
        var offsets: [Element: Int] = [:]
        for offset in start..<oldEnd { offsets[old[offset]] = offset }
        let common = (start..<newEnd).compactMap { offset in
            offsets[new[offset]].map { (old: $0, new: offset) }
        }
        let stays = increasing(common.map(\.old))
        let movesFrom = Dictionary(
            common.map { ($0.new, $0.old) }, uniquingKeysWith: { first, _ in first })
        let movesTo = Dictionary(
            common.map { ($0.old, $0.new) }, uniquingKeysWith: { first, _ in first })

        var changes: [CollectionDifference<Element>.Change] = []
        for offset in start..<oldEnd where !stays.contains(offset) {
            changes.append(
                .remove(offset: offset, element: old[offset], associatedWith: movesTo[offset]))
        }
        for offset in start..<newEnd {
            let from = movesFrom[offset]
            if let from, stays.contains(from) { continue }
            changes.append(.insert(offset: offset, element: new[offset], associatedWith: from))
        }
        return CollectionDifference(changes)
    }

    /// A longest increasing run of different numbers.
    private static func increasing(_ numbers: [Int]) -> Set<Int> {
        // For each length, where the run of that length with the least end ends.
        var ends: [Int] = []
        var previous: [Int?] = []
        for (index, number) in numbers.enumerated() {
            let length = ends.lowerBound { numbers[$0] < number }
            previous.append(length == 0 ? nil : ends[length - 1])
            if length == ends.count { ends.append(index) } else { ends[length] = index }
        }
        var result = Set<Int>()
        var index = ends.last
        while let current = index {
            result.insert(numbers[current])
            index = previous[current]
        }
        return result
    }
}
