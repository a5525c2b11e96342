import Foundation
import Glibc
import Merge
import Synchronization

/// The lock file beside a store, held for life, that keeps a second process out.
///
/// It is a lock of the kernel, so it goes with the process however that ends; the file stays.
final class StoreOwnership: StoreLock {
    private let descriptor: Int32
    private let isHeld = Mutex(true)
    let lastHolder: ActorID?

    /// Takes the lock.
    ///
    /// - Throws: ``CoordinatorError``: `storeInUse` where another process has it.
    init(storePath: String) throws {
        let path = storePath + "-lock"
        let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        self.descriptor = descriptor
        let isLocked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0
        lastHolder = isLocked ? LockHolder.read(from: descriptor) : nil
        guard descriptor >= 0 else {
            throw CoordinatorError(
                .inputOutput, "Cannot open \(path): \(String(cString: strerror(errno))).")
        }
        guard isLocked else {
            // The initialiser has set everything, so deinit runs and closes it: to close it here
            // too would close whatever file another thread has opened in between.
            throw CoordinatorError(
                .storeInUse, "The store \(storePath) is in use by another process.")
        }
    }

    func note(holder: ActorID) { LockHolder.write(holder, to: descriptor) }

    /// Releases the lock; more than once is harmless.
    func release() {
        let held = isHeld.withLock { held in
            defer { held = false }
            return held
        }
        guard held, descriptor >= 0 else { return }
        // The lock is the open file's. A process that another thread is just starting has a copy of
        // that file until it runs its program, so closing this one alone would leave the store
        // locked.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    deinit { release() }
}
