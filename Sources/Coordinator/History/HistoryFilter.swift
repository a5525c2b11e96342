public import Merge

/// Which transactions and changes of history are wanted: those that meet all that is given.
public struct HistoryFilter: Hashable, Sendable {
    /// Transactions of that author.
    public var author: String?
    /// Transactions of contexts of that name.
    public var contextName: String?
    /// Transactions that the node saved.
    public var node: NodeID?
    /// Changes of objects of that entity, or of one that inherits from it.
    public var entityName: String?
    /// Updates that assign the property, and inserts and deletes of objects that have it.
    public var property: String?
    /// Changes of that object.
    public var object: ManagedObjectID?
    /// A condition on transactions: `author`, `contextName`, `saveID`, `dot` (texts), `node` (a number),
    /// `timestamp` (a date), and `changes`, which have `entityName`, `changeType` (`insert`, `update`,
    /// `delete`), `uri`, `isDerived` and `properties`, which have a `name`:
    /// `author == nil AND ANY changes.properties.name == 'age'`.
    public var predicate: Predicate?

    /// Describes a filter; without anything it lets all through.
    public init(
        author: String? = nil, contextName: String? = nil, node: NodeID? = nil,
        entityName: String? = nil, property: String? = nil, object: ManagedObjectID? = nil,
        predicate: Predicate? = nil
    ) {
        self.author = author
        self.contextName = contextName
        self.node = node
        self.entityName = entityName
        self.property = property
        self.object = object
        self.predicate = predicate
    }

    /// Whether it lets all through.
    package var isEmpty: Bool { self == HistoryFilter() }
}

/// The objects of a transaction that a filter lets through.
package enum WantedObjects: Sendable {
    /// All of them.
    case all
    /// Those of these rows.
    case some(Set<RowID>)

    /// Whether a change is wanted; one of a link is where one of its ends is.
    package func has(_ row: RowID, _ target: RowID? = nil) -> Bool {
        switch self {
        case .all: true
        case .some(let rows): rows.contains(row) || target.map(rows.contains) ?? false
        }
    }
}

/// A filter with its names looked up.
package struct ResolvedHistoryFilter: Sendable {
    let filter: HistoryFilter
    private let entities: Set<String>?
    /// The entity's name as the model has it.
    private let entityName: String?
    /// The entities that have the property; nil where none is asked for.
    private let owners: Set<String>?
    private let evaluator: PredicateEvaluator?
    let cluster: String

    /// Looks names up.
    ///
    /// - Throws: ``CoordinatorError``: `malformed` for an entity or property that the model does not have,
    ///   `invalidPredicate`.
    package init(
        _ filter: HistoryFilter, model: ManagedObjectModel, cluster: String
    ) throws {
        self.filter = filter
        self.cluster = cluster
        var entities: Set<String>?
        entityName = filter.entityName.flatMap { model.entity(named: $0)?.name }
        if let name = filter.entityName {
            guard let entity = model.entity(named: name) else {
                throw CoordinatorError(.malformed, model.noEntity(name))
            }
            entities = Set(entity.familyNames)
        }
        self.entities = entities
        owners = filter.property.map { property in
            Set(
                model.entities.filter {
                    $0.position(of: property) != nil || $0.relationship(named: property) != nil
                }.map(\.name))
        }
        if let property = filter.property, let owners {
            guard !owners.intersection(entities ?? owners).isEmpty else {
                throw CoordinatorError(
                    .malformed,
                    "\(filter.entityName ?? "No entity") has no stored property \(property).")
            }
        }
        guard let predicate = filter.predicate else {
            evaluator = nil
            return
        }
        do {
            evaluator = try PredicateEvaluator(
                predicate, entity: HistoryModel.transaction, model: HistoryModel.model,
                cluster: cluster)
        } catch {
            throw CoordinatorError(.invalidPredicate, "\(error)")
        }
    }

    /// Under what all that is wanted is in the index of history; nil where that does not help.
    var indexName: String? {
        filter.author.map(HistoryNames.name(ofAuthor:))
            ?? entityName.map(HistoryNames.name(ofEntity:))
    }

    /// The objects of a transaction that are wanted; nil where it is not wanted.
    package func wantedObjects(
        of transaction: Transaction, _ reader: StoreReader
    ) throws -> WantedObjects? {
        if filter.isEmpty { return .all }
        guard mayWant(transaction) else { return nil }
        guard needsChanges else { return .all }
        let own = reader.catalog.asOwn(transaction)
        guard let wanted = try wanted(own, try HistoryChanges(reader).changes(of: own)) else {
            return nil
        }
        if entities == nil, filter.property == nil, filter.object == nil { return .all }
        return .some(Set(wanted.map(\.changedObjectID.row)))
    }

    /// Whether it takes a transaction's changes to tell whether it is wanted.
    var needsChanges: Bool {
        filter.entityName != nil || filter.property != nil || filter.predicate != nil
            || filter.object != nil
    }

    /// Whether a transaction may be wanted, as far as it tells without its changes.
    func mayWant(_ transaction: Transaction) -> Bool {
        func isOther(_ wanted: String?, _ given: String?) -> Bool {
            // By bytes, as predicates and the index compare texts.
            wanted.map { wanted in !(given?.utf8.elementsEqual(wanted.utf8) ?? false) } ?? false
        }
        if isOther(filter.author, transaction.author) { return false }
        if isOther(filter.contextName, transaction.contextName) { return false }
        if let node = filter.node, transaction.dot.actor.node != node { return false }
        return true
    }

    /// The changes that are wanted of a transaction; nil where it is not.
    func wanted(
        _ transaction: Transaction, _ changes: [PersistentHistoryChange]
    ) throws -> [PersistentHistoryChange]? {
        var wanted = changes
        if entities != nil || filter.property != nil || filter.object != nil {
            wanted = changes.filter { change in
                if let entities, !entities.contains(change.changedObjectID.entityName) {
                    return false
                }
                if let object = filter.object, change.changedObjectID.row != object.row {
                    return false
                }
                guard let property = filter.property else { return true }
                if change.changeType == .update {
                    return change.updatedProperties.contains(property)
                }
                return owners?.contains(change.changedObjectID.entityName) ?? true
            }
            if wanted.isEmpty { return nil }
        }
        if let evaluator {
            let subject = HistorySubject(.transaction(transaction, changes), cluster)
            guard try evaluator.matches(subject) else { return nil }
        }
        return wanted
    }
}

/// History as objects, for predicates.
private enum HistoryModel {
    static let model: ManagedObjectModel = {
        do {
            return try ManagedObjectModel(entities: [
                EntityDescription(
                    "Transaction",
                    attributes: [
                        .init("author", .string), .init("contextName", .string),
                        .init("saveID", .string), .init("dot", .string),
                        .init("node", .integer32), .init("timestamp", .date),
                    ],
                    relationships: [
                        .init("changes", to: "Change", inverse: "transaction", isToMany: true)
                    ]),
                EntityDescription(
                    "Change",
                    attributes: [
                        .init("entityName", .string), .init("changeType", .string),
                        .init("uri", .string), .init("isDerived", .boolean),
                    ],
                    relationships: [
                        .init("transaction", to: "Transaction", inverse: "changes"),
                        .init("properties", to: "Property", inverse: "change", isToMany: true),
                    ]),
                EntityDescription(
                    "Property", attributes: [.init("name", .string)],
                    relationships: [.init("change", to: "Change", inverse: "properties")]),
            ])
        } catch { fatalError("The model of history is refused: \(error)") }
    }()

    static let transaction: ManagedObjectModel.Entity = {
        guard let entity = model.entity(named: "Transaction") else {
            fatalError("The model of history has no transactions.")
        }
        return entity
    }()
}

/// A transaction, a change or a property of it, as a predicate sees it.
private struct HistorySubject: PredicateSubject {
    enum Content {
        case transaction(Transaction, [PersistentHistoryChange])
        case change(PersistentHistoryChange)
        case property(String)
    }

    private let content: Content
    private let cluster: String
    let predicateRow: RowID

    init(_ content: Content, _ cluster: String, row: Int64 = 1) {
        self.content = content
        self.cluster = cluster
        predicateRow = RowID(row)
    }

    func predicateValue(ofAttribute name: String) -> PropertyValue {
        func text(_ text: String?) -> PropertyValue { text.map { .string($0) } ?? .null }
        switch content {
        case .transaction(let transaction, _):
            switch name {
            case "author": return text(transaction.author)
            case "contextName": return text(transaction.contextName)
            case "saveID": return text(transaction.saveID)
            case "dot": return text(transaction.dot.description)
            case "node": return .integer(Int64(transaction.dot.actor.node.rawValue))
            case "timestamp":
                return .date(Int64(clamping: transaction.timestamp.milliseconds))
            default: return .null
            }
        case .change(let change):
            switch name {
            case "entityName": return text(change.changedObjectID.entityName)
            case "changeType": return text(change.changeType.rawValue)
            case "uri":
                return text(change.changedObjectID.uriRepresentation(cluster: cluster))
            case "isDerived": return .boolean(change.isDerived)
            default: return .null
            }
        case .property(let property): return text(property)
        }
    }

    /// Predicates begin at transactions and go to what is in them.
    func predicateTarget(ofToOne name: String) -> HistorySubject? { nil }

    func predicateTargets(ofToMany name: String) -> [HistorySubject] {
        switch content {
        case .transaction(_, let changes):
            changes.enumerated().map { HistorySubject(.change($1), cluster, row: Int64($0) + 1) }
        case .change(let change):
            change.updatedProperties.sorted().enumerated().map {
                HistorySubject(.property($1), cluster, row: Int64($0) + 1)
            }
        case .property: []
        }
    }
}
