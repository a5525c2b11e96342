// The saves that can never be applied and are not in the store yet, for status and for the next
// run.
//
// Threading: written by the loop; read by all threads.

internal import Merge
internal import NodeCore
internal import Synchronization

/// Keeps orphans that the store has not taken, from run to run of a process.
final class OrphanKeeper: Sendable {
    private let kept: Mutex<OrphanBook>

    init(_ book: OrphanBook = OrphanBook()) { kept = Mutex(book) }

    /// The loop's latest knowledge.
    var book: OrphanBook { kept.withLock { $0 } }

    /// The saves that are not in the store, because they could not be written yet or have no room;
    /// by dot.
    var notKept: [Dot] { book.notKept }

    /// Takes over what the loop knows.
    func keep(_ book: OrphanBook) { kept.withLock { $0 = book } }
}
