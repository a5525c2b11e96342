import Foundation
import Merge

/// Reads history through a filter, from a place on.
package struct HistoryReading: Sendable {
    /// The place up to which all that is wanted was given.
    package var token: QueryGenerationToken { place.token }
    /// Whether the last step found the log's end.
    package var reachedEnd: Bool { place.reachedEnd }

    private var place: LogPlace
    private let filter: ResolvedHistoryFilter
    private let hasChanges: Bool

    private enum Limits {
        /// Transactions read at once; one of a batch request has 10,000 changes.
        static let transactions = 8
        /// Their bytes; the first is always read.
        static let bytes = 1 << 20
    }

    /// Begins after a token of this node or another, or at the log's beginning.
    ///
    /// - Parameter hasChanges: whether the changes are wanted too.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where some of what comes after the token was
    ///   purged, or it names an incarnation that this store knows nothing of.
    package init(
        after: QueryGenerationToken?, _ filter: ResolvedHistoryFilter, hasChanges: Bool = true,
        _ reader: StoreReader
    ) throws {
        self.filter = filter
        self.hasChanges = hasChanges
        place = try Self.expiring {
            try LogPlace(after: after, current: reader.token, for: filter, reader)
        }
    }

    /// Reads one page of the log, and gives what is wanted of it, oldest first; an empty answer need not be
    /// the end.
    ///
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where what comes next was purged meanwhile.
    package mutating func next(
        _ reader: StoreReader
    ) throws -> [PersistentHistoryTransaction] {
        var place = place
        let page = try Self.expiring {
            try place.advanceByPlaces(
                reader, limit: Limits.transactions, bytes: Limits.bytes)
        }
        var result: [PersistentHistoryTransaction] = []
        for (logged, token) in page {
            let transaction = reader.catalog.asOwn(logged.encoded.transaction)
            guard filter.mayWant(transaction) else { continue }
            if !hasChanges, !filter.needsChanges {
                result.append(
                    PersistentHistoryTransaction(logged, transaction, token: token, changes: nil))
                continue
            }
            let changes = try HistoryChanges(reader).changes(of: transaction)
            guard let wanted = try filter.wanted(transaction, changes) else { continue }
            result.append(
                PersistentHistoryTransaction(
                    logged, transaction, token: token, changes: hasChanges ? wanted : nil))
        }
        self.place = place
        return result
    }

    private static func expiring<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as CoordinatorError where error.code == .queryGenerationExpired {
            throw CoordinatorError(
                .historyTokenExpired,
                "The history after that token was purged here; fetch all objects again.")
        }
    }
}

extension PersistentHistoryTransaction {
    init(
        _ logged: LoggedTransaction, _ transaction: Transaction, token: QueryGenerationToken,
        changes: [PersistentHistoryChange]?
    ) {
        transactionNumber = logged.position
        self.token = token
        dot = transaction.dot
        timestamp = .init(
            timeIntervalSince1970: Double(transaction.timestamp.milliseconds) / 1000)
        author = transaction.author
        contextName = transaction.contextName
        note = transaction.note
        saveID = transaction.saveID
        self.changes = changes
    }
}

/// Puts a transaction's changes of rows and links together by object.
struct HistoryChanges {
    private let reader: StoreReader

    init(_ reader: StoreReader) { self.reader = reader }

    /// The changes of a transaction in the names of the store's own model.
    func changes(of transaction: Transaction) throws -> [PersistentHistoryChange] {
        var result: [PersistentHistoryChange] = []
        var places: [RowID: Int] = [:]
        func note(
            _ id: ManagedObjectID, _ kind: PersistentHistoryChange.ChangeType,
            _ properties: some Sequence<String>, tombstone: [String: PropertyValue]? = nil
        ) {
            guard let place = places[id.row] else {
                places[id.row] = result.count
                result.append(
                    PersistentHistoryChange(
                        changedObjectID: id, changeType: kind,
                        updatedProperties: kind == .update ? Set(properties) : [],
                        tombstone: tombstone, isDerived: false))
                return
            }
            let known = result[place]
            guard known.changeType == .update else { return }
            guard kind == .update else {
                result[place] = PersistentHistoryChange(
                    changedObjectID: id, changeType: kind, updatedProperties: [],
                    tombstone: tombstone, isDerived: false)
                return
            }
            result[place] = PersistentHistoryChange(
                changedObjectID: known.changedObjectID, changeType: .update,
                updatedProperties: known.updatedProperties.union(properties), tombstone: nil,
                isDerived: false)
        }
        for change in transaction.changes {
            let shape = transaction.shapes[change.shape]
            let id = ManagedObjectID(entityName: shape.entity, row: change.row)
            switch change.kind {
            case .insert, .revival: note(id, .insert, [])
            case .update: note(id, .update, shape.assigned)
            case .delete:
                let kept = zip(shape.assigned + shape.carried, change.values)
                note(
                    id, .delete, [],
                    tombstone: Dictionary(kept.map { ($0, $1) }, uniquingKeysWith: { $1 }))
            case .link, .unlink:
                for end in ends(of: change, shape) {
                    note(try own(end.object), .update, [end.property])
                }
            }
        }
        for derived in try reader.derivedChanges(of: transaction.dot) {
            result.append(
                PersistentHistoryChange(
                    changedObjectID: derived.object, changeType: .update,
                    updatedProperties: [derived.property], tombstone: nil, isDerived: true))
        }
        return result
    }

    /// The two objects of a link, with the relationship that each has to the other.
    private func ends(
        of change: Change, _ shape: ChangeShape
    ) -> [(object: ManagedObjectID, property: String)] {
        guard let target = change.target, let link = reader.catalog.model.link(named: shape.entity)
        else { return [] }
        let name = String(shape.entity.split(separator: ".", maxSplits: 1).last ?? "")
        let source = ManagedObjectID(entityName: link.source, row: change.row)
        var ends = [(object: source, property: name)]
        let inverse = reader.catalog.model.entity(named: link.source)?.relationship(named: name)?
            .description.inverse
        if let inverse {
            ends.append((ManagedObjectID(entityName: link.target, row: target), inverse))
        }
        return ends
    }

    /// An object by its own entity, where it is there still.
    private func own(_ id: ManagedObjectID) throws -> ManagedObjectID {
        guard let entity = reader.catalog.model.entity(named: id.entityName), entity.sharesTable,
            let table = try reader.concreteTable(entity, id.row)
        else { return id }
        return ManagedObjectID(entityName: table.entity.name, row: id.row)
    }
}
