// What can be applied no more and is not in the store yet, for status and for the next run.
//
// Threading: written by the loop; read by all threads.

internal import Merge
internal import NodeCore
internal import Synchronization

/// Keeps orphans that the store has not taken, from run to run of a process.
final class OrphanKeeper: Sendable {
    private let kept: Mutex<OrphanBook>

    init(_ book: OrphanBook = OrphanBook()) { kept = Mutex(book) }

    /// What the loop knew last.
    var book: OrphanBook { kept.withLock { $0 } }

    /// What is not in the store, because it could not be written yet or has no room; by dot.
    var notKept: [Dot] { book.notKept }

    /// Takes over what the loop knows.
    func keep(_ book: OrphanBook) { kept.withLock { $0 = book } }
}
