import Dispatch
public import Foundation
import Synchronization

extension Notification.Name {
    /// Posted after commits, made here or at other nodes, where
    /// ``PersistentStoreCoordinator/Options/postsRemoteChangeNotifications`` asks for it; the object is the
    /// coordinator. As NSPersistentStoreRemoteChange.
    public static let persistentStoreRemoteChange = Notification.Name("PersistentStoreRemoteChange")
}

extension PersistentStoreCoordinator {
    /// The key of the store's file, a `URL`, in the notification of a remote change.
    public static let persistentStoreURLKey = "storeURL"
    /// The key of the state after the newest commit, a ``QueryGenerationToken``, in it.
    public static let persistentHistoryTokenKey = "historyToken"
}

/// Posts notifications of commits on a queue of its own, so that those who hear them hold no saver back.
/// Commits that come while one is waiting to be posted are told with it. Thread-safe.
final class RemoteChanges: Sendable {
    private let queue = DispatchQueue(label: "org.tributary.remote-changes")
    private let waiting = Mutex<QueryGenerationToken?>(nil)
    private let observation = Mutex<CommitObservation?>(nil)

    /// Posts what a coordinator commits, as long as that is alive.
    func begin(_ coordinator: PersistentStoreCoordinator) {
        let observation = coordinator.observeCommits { [weak self, weak coordinator] notice in
            guard let self, let coordinator else { return }
            note(notice.token, of: coordinator)
        }
        self.observation.withLock { $0 = observation }
    }

    private func note(_ token: QueryGenerationToken, of coordinator: PersistentStoreCoordinator) {
        let isAlone = waiting.withLock { waiting in
            defer { waiting = token }
            return waiting == nil
        }
        guard isAlone else { return }
        queue.async { [weak coordinator] in
            let token = self.waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting
            }
            guard let coordinator, let token else { return }
            NotificationCenter.default.post(
                name: .persistentStoreRemoteChange, object: coordinator,
                userInfo: [
                    PersistentStoreCoordinator.persistentStoreURLKey:
                        URL(fileURLWithPath: coordinator.storePath),
                    PersistentStoreCoordinator.persistentHistoryTokenKey: token,
                ])
        }
    }
}
