import Merge

/// Why a transaction from elsewhere was not applied. It is held and reported, never dropped.
struct ApplyRejection: Error, Hashable, Sendable {
    let dot: Dot
    let reason: String
}

/// The meaning of a transaction's changes in this store: names looked up once a shape.
enum ResolvedShape {
    case rows(EntityTable, positions: [Int])
    case link(ManagedObjectModel.Link)
    case membership

    var isMembership: Bool {
        if case .membership = self { true } else { false }
    }

    var hasReferences: Bool {
        switch self {
        case .rows(let table, _): !table.references.isEmpty
        case .link, .membership: false
        }
    }

    var hasConstraints: Bool {
        switch self {
        case .rows(let table, _): !table.constraints.isEmpty
        case .link, .membership: false
        }
    }

    var isCounted: Bool {
        switch self {
        case .rows(let table, _): table.isCounted
        case .link, .membership: false
        }
    }
}

/// Applies transactions that this node or another one made: the one path by which rows change.
struct TransactionApplier: StorePart {
    let session: StoreSession

    /// Applies a transaction that this node or another one made: the one path by which rows
    /// change.
    ///
    /// The transaction is applied whole or not at all. It must be causally ready: its sequence
    /// the next of its actor, and all it has seen applied.
    ///
    /// - Parameters:
    ///   - loaded: the rows of its first changes as the store has them, where they are known.
    ///   - isLocal: whether a save of ours made it, just now, after its checks.
    ///   - isPlain: whether these have shown that it does nothing but update living rows that no two
    ///     concurrent writes have left, and that have no references, constraints or counts, or delete such
    ///     as are apart.
    /// - Throws: ``ApplyRejection`` where it cannot be merged; the group is then as before.
    func apply(
        _ encoded: EncodedTransaction, loaded: [LoadedRow?] = [], isLocal: Bool = false,
        isPlain: Bool = false
    ) throws {
        // Where all that it has seen is here, so are the beginnings of that.
        let encoded = isLocal ? encoded : encoded.completed(by: state.beginnings)
        let logged = encoded.transaction
        let (transaction, parked) = try transactionLog.asOwn(logged)
        guard state.versionVector[transaction.dot.actor] == transaction.dot.sequence - 1,
            state.versionVector.covers(transaction.seen)
        else { throw ApplyRejection(dot: transaction.dot, reason: "It is not causally ready.") }
        guard transaction.dot.actor.incarnation > 0 else {
            throw ApplyRejection(
                dot: transaction.dot, reason: "No opening of a store has the incarnation 0.")
        }
        let shapes = try transaction.shapes.map { try resolve($0, of: transaction.dot) }
        if !isLocal { try checkForeign(transaction, shapes: shapes) }

        if !isLocal, let owed = session.owedRecovery.record { try incarnationStore.record(owed) }
        scratch.mode = .applying(transaction)
        defer { scratch.mode = .none }
        let before = state
        let mark = group.mark
        if !isLocal { try database.prepared("SAVEPOINT one").run() }
        do {
            try transactionLog.intern(transaction.dot.actor)
            if !isLocal { avoidIdentities(transaction.changes, of: transaction.dot.actor) }
            try transactionLog.noteModel(logged.modelHash, of: logged.dot.actor)
            try transactionLog.park(parked)
            try applyChanges(
                transaction, shapes: shapes, isLocal: isLocal, loaded: loaded,
                isPlain: isPlain)
            try transactionLog.log(encoded)
            if !isLocal { try database.prepared("RELEASE one").run() }
        } catch let alarm as RowAlarm {
            state = before
            group.rewind(to: mark)
            scratch.forget()
            if isLocal { fatalError("A save of ours was refused after its checks: \(alarm).") }
            try database.prepared("ROLLBACK TO one").run()
            try database.prepared("RELEASE one").run()
            let reason =
                switch alarm {
                case .identityExists: "It inserts an object that is there already."
                case .rowMissing: "It changes an object that is not there."
                case .entityDiffers: "It changes an object of another entity than it names."
                }
            throw ApplyRejection(dot: transaction.dot, reason: reason)
        }
    }

    /// A former life of this node with a store that was lost may have been ahead of our blocks.
    private func avoidIdentities(_ changes: [Change], of author: ActorID) {
        guard author.node == actor.node else { return }
        for change in changes where change.kind == .insert {
            state.allocator.avoid(change.row)
        }
    }

    /// Checks a foreign transaction as a save of ours is checked before it writes: a value of
    /// another type would make its row unreadable.
    private func checkForeign(_ transaction: Transaction, shapes: [ResolvedShape]) throws {
        guard transaction.dot.actor != actor else {
            throw ApplyRejection(
                dot: transaction.dot, reason: "It bears the name of this node's own saves.")
        }
        for change in transaction.changes {
            let isSound: Bool
            switch shapes[change.shape] {
            case .link: isSound = change.target != nil
            case .membership:
                isSound =
                    MembershipChange(change, shape: transaction.shapes[change.shape]) != nil
            case .rows(let table, let positions):
                isSound =
                    change.target == nil
                    && zip(positions, change.values).allSatisfy { position, value in
                        switch (table.entity.properties[position].content, value) {
                        case (_, .null), (.toOne, .reference): true
                        case (.toOne, _): false
                        case (.attribute(let type), _): Validation.fits(value, type: type)
                        }
                    }
            }
            guard isSound else {
                throw ApplyRejection(
                    dot: transaction.dot,
                    reason: "A change of \(change.row) does not fit the model.")
            }
        }
        try checkInserts(transaction, shapes)
    }

    /// Refuses what no save does: to insert a row and to change it as well.
    private func checkInserts(_ transaction: Transaction, _ shapes: [ResolvedShape]) throws {
        let inserts = transaction.changes.lazy.filter { $0.kind == .insert }
        let count = inserts.count
        if count == 0 || count == transaction.changes.count { return }
        func root(_ change: Change) -> String? {
            if case .rows(let table, _) = shapes[change.shape] { table.entity.root } else { nil }
        }
        let inserted = Dictionary(
            inserts.map { ($0.row, root($0)) }, uniquingKeysWith: { first, _ in first })
        for change in transaction.changes where change.kind != .insert {
            guard let root = root(change), inserted[change.row] == root else { continue }
            throw ApplyRejection(
                dot: transaction.dot,
                reason: "It inserts \(change.row), and changes it as well.")
        }
    }

    /// The meaning of a transaction's shape in this store.
    func resolve(_ shape: ChangeShape, of transaction: Dot) throws -> ResolvedShape {
        if let table = tables[shape.entity] {
            var positions: [Int] = []
            positions.reserveCapacity(shape.valueCount)
            for name in shape.assigned + shape.carried {
                guard let position = table.entity.position(of: name) else {
                    throw ApplyRejection(
                        dot: transaction, reason: "\(shape.entity) has no property \(name) here.")
                }
                positions.append(position)
            }
            return .rows(table, positions: positions)
        }
        if let link = model.link(named: shape.entity), shape.valueCount == 0 {
            return .link(link)
        }
        if shape.entity == MembershipChange.entity { return .membership }
        throw ApplyRejection(
            dot: transaction, reason: "There is no entity \(shape.entity) here.")
    }
}
