import Synchronization

/// The IDs of saves that were begun and have not come to anything yet. Thread-safe.
///
/// A client that asks what became of one must not hear that it was not saved: it may be a moment
/// later. There are as many as callers wait for their saves.
final class SavesUnderWay: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    func begin(_ saveID: String?) {
        guard let saveID else { return }
        counts.withLock { $0[saveID, default: 0] += 1 }
    }

    /// Begins what nobody else is to be under way with.
    ///
    /// - Returns: false where somebody is.
    func beginAlone(_ saveID: String) -> Bool {
        counts.withLock { counts in
            guard counts[saveID] == nil else { return false }
            counts[saveID] = 1
            return true
        }
    }

    func end(_ saveID: String?) {
        guard let saveID else { return }
        counts.withLock { counts in
            let count = counts[saveID, default: 0] - 1
            counts[saveID] = count > 0 ? count : nil
        }
    }

    func contains(_ saveID: String) -> Bool { counts.withLock { $0[saveID] != nil } }
}
