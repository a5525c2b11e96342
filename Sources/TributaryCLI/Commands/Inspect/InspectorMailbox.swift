// What comes to the inspector from keys, signals, the clock and the node, in one queue.

import Inspector
import Synchronization

/// A queue with one reader. Usable from any thread.
final class InspectorMailbox: Sendable {
    /// What comes.
    enum Letter: Sendable {
        case event(InspectorEvent)
        /// The terminal has another size.
        case resized
        /// The system asks to stop for a while.
        case suspend
        /// The program goes on after it was stopped.
        case resumed
        /// The system asks to end, or the terminal has gone.
        case end
    }

    private struct State {
        var letters: [Letter] = []
        var reader: CheckedContinuation<[Letter], Never>?
    }

    private let state = Mutex(State())

    /// Adds a letter.
    func send(_ letter: Letter) {
        let waiting = state.withLock { state -> (CheckedContinuation<[Letter], Never>, [Letter])? in
            state.letters.append(letter)
            guard let reader = state.reader else { return nil }
            let letters = state.letters
            state.letters = []
            state.reader = nil
            return (reader, letters)
        }
        if let (reader, letters) = waiting { reader.resume(returning: letters) }
    }

    /// Takes all letters; waits where there are none.
    func take() async -> [Letter] {
        await withCheckedContinuation { continuation in
            let letters = state.withLock { state -> [Letter]? in
                if state.letters.isEmpty {
                    state.reader = continuation
                    return nil
                }
                defer { state.letters = [] }
                return state.letters
            }
            if let letters { continuation.resume(returning: letters) }
        }
    }
}
