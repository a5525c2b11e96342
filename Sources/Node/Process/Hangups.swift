// SIGHUPs, and which run of the node heeds them.
//
// Threading: from any task.

internal import Synchronization

/// Hands each SIGHUP to the run that there is. If one comes between two runs, while a copy takes the
/// store's place, the next run reloads: an operator who withdraws a key must not have to look whether
/// the node was listening.
final class Hangups: Sendable {
    private struct State {
        var reloader: NodeReloader?
        var isOwed = false
    }

    private let state = Mutex(State())

    /// Has a run take them from now on, and one that came before it.
    func hand(to reloader: NodeReloader) async {
        let isOwed = state.withLock { state in
            state.reloader = reloader
            defer { state.isOwed = false }
            return state.isOwed
        }
        if isOwed { await heed() }
    }

    /// Has the run that there is read its configuration again.
    func heed() async {
        let reloader = state.withLock(\.reloader)
        do {
            guard let reloader else { throw NodeError(.stopped, "No run has begun") }
            _ = try await reloader.reload()
        } catch let error as NodeError where error.code == .stopped {
            state.withLock { $0.isOwed = true }
        } catch {
            // The log has the failure: a person who sends a signal has no other place to look.
        }
    }
}
