import Merge

/// The synchronous heart of a coordinator: the only code that writes a store.
///
/// No async, no lock, no clock of its own: it belongs to one queue, time and chance come in
/// through ``StoreSession/Environment``, and a simulator can drive it as the product does. It only
/// puts its parts together: a save is planned in Planning, written in Projection, journalled in
/// Journal and logged in Log.
///
/// Invariants
/// 1. A save that throws has written nothing and used no sequence (checks come before writes).
/// 2. A row is in its entity's table exactly while it is visible; in `_eclipsed` while it is alive
///    but an earlier row shows its unique key; else in `_tombstone`, until stability has it
///    collected.
/// 3. A reference column holds a visible row, the target's survivor where that is eclipsed, or
///    NULL; `_dangling` lists what reads as NULL.
/// 4. `state.digest` is the sum of the hashes of all living rows and links.
final class StoreEngine: StorePart {
    let session: StoreSession

    init(_ session: StoreSession) { self.session = session }

    /// The recovery state to write down before anything of others is applied.
    var owedRecovery: OwedRecovery { session.owedRecovery }
    /// The committed state.
    var committed: StoreSession.State { session.committed }
    /// The token of the open group, or of the store where none is open.
    var token: QueryGenerationToken { session.token }

    // MARK: Groups

    /// Begins a transaction of groups: see ``StoreSession/begin(isDurable:)``.
    func begin(isDurable: Bool) throws { try session.begin(isDurable: isDurable) }

    /// Opens a group of saves made here, or one of anything else, and closes it after what is done in it.
    func group<Result>(isLocal: Bool, _ body: () throws -> Result) rethrows -> Result {
        session.openGroup()
        let result = try body()
        session.closeGroup(isLocal: isLocal)
        return result
    }

    /// Commits the groups, and tells of each that came to something.
    func commit() throws -> [CommitNotice] { try session.commit() }

    /// Gives the groups up.
    func rollBack() throws { try session.rollBack() }

    /// Commits durably, so that all commits before are durable too.
    func makeDurable() throws { try session.makeDurable() }

    // MARK: Within a group

    /// Saves: see ``SaveWriter``.
    func save(_ request: SaveRequest) throws -> SaveResult {
        try SaveWriter(session: session).save(request)
    }

    /// Applies a transaction from elsewhere: see ``TransactionApplier``.
    func apply(_ encoded: EncodedTransaction) throws { try applier.apply(encoded) }

    /// Resolves conflicts and undoes resolutions.
    var resolver: ConflictResolver { ConflictResolver(view: view) }

    /// The part that collects what stability permits.
    var collector: Collector { Collector(session: session) }

    /// The part that purges history.
    var purger: HistoryPurger { HistoryPurger(session: session) }

    /// Prepares the connection for its end: releases statements that would keep it open.
    func finish() { session.scratch = ApplyScratch() }
}
