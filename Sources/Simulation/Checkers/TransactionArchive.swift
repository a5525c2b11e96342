internal import Coordinator
internal import Merge
internal import ReferenceModel

/// All transactions that were committed anywhere in a run, by dot; the set of saves from which the
/// oracle computes what must be.
final class TransactionArchive {
    private let models: [ManagedObjectModel]
    /// Of each edition what those before it are in its names, the nearest first, each with its place.
    private var translations: [[(edition: Int, words: ReferenceTranslation)]] = []
    /// By which of the run's models all is read: that of the node that is observed.
    var edition = 0
    /// In the order in which they were first seen, as they were written.
    private(set) var written: [Transaction] = []
    /// The same by edition, in its names.
    private var translated: [[Transaction]]
    /// Of each actor how much is known without a gap.
    private(set) var vector = VersionVector()
    /// Of each actor the highest sequence known.
    private(set) var highest = VersionVector()
    private var places: [Dot: Int] = [:]
    private var bytes: [[UInt8]] = []
    private var oracles: [(vector: VersionVector, edition: Int, oracle: ReferenceModel)] = []
    private var slices: [Subjects: OracleSlice] = [:]

    private struct Subjects: Hashable {
        var names: Set<String>
        var edition: Int
    }

    init(model: ManagedObjectModel, editions: Editions? = nil) {
        models = editions?.models ?? [model]
        translated = models.map { _ in [] }
        guard let editions else { return }
        translations = models.indices.map { place in
            editions.former(of: place).reversed().compactMap { other in
                guard models[other].modelHash != models[place].modelHash else { return nil }
                do {
                    return (other, try ReferenceTranslation(from: models[other], to: models[place]))
                } catch {
                    fatalError("A model has no words in a later one: \(error)")
                }
            }
        }
    }

    /// The model of a hash in the names of an edition; nil if that is its own, or one that its
    /// nodes do not know.
    private func words(
        _ hash: [UInt8], at edition: Int
    ) -> ReferenceTranslation? {
        translations[edition].first { models[$0.edition].modelHash == hash }?.words
    }

    /// The model by which all is read.
    var model: ManagedObjectModel { models[edition] }

    /// All, in the order in which they were first seen.
    var transactions: [Transaction] { models.count == 1 ? written : translated[edition] }

    /// By the hash that transactions name: the models before, in the names of the one by which
    /// all is read.
    private var former: [[UInt8]: ManagedObjectModel] {
        if models.count == 1 { return [:] }
        return Dictionary(
            translations[edition].map { (models[$0.edition].modelHash, $0.words.model) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Whether the models that are known to the node that is observed settle by other policies which
    /// of an entity's rows are there: which of them counts hangs on who wrote last.
    func hasOtherPolicies(_ entity: String) -> Bool {
        guard models.count > 1 else { return false }
        return translations[edition].contains { _, words in
            words.model.entity(named: entity)?.policies.entity
                != model.entity(named: entity)?.policies.entity
        }
    }

    /// Adds a transaction.
    ///
    /// - Returns: false where another content is known under its dot.
    @discardableResult
    func add(_ transaction: EncodedTransaction) -> Bool {
        let dot = transaction.dot
        if let place = places[dot] { return bytes[place] == transaction.bytes }
        places[dot] = written.count
        written.append(transaction.transaction)
        if models.count > 1 {
            for place in models.indices {
                let (own, hash) = (transaction.transaction, transaction.transaction.modelHash)
                translated[place].append(words(hash, at: place)?.translate(own) ?? own)
            }
        }
        bytes.append(transaction.bytes)
        highest.advance(to: dot)
        while places[Dot(actor: dot.actor, sequence: vector[dot.actor] + 1)] != nil {
            vector.advance(dot.actor, to: vector[dot.actor] + 1)
        }
        return true
    }

    /// A transaction as it was written, by whatever model all is read.
    func written(_ dot: Dot) -> Transaction? { places[dot].map { written[$0] } }

    func transaction(_ dot: Dot) -> Transaction? { places[dot].map { transactions[$0] } }

    /// Whether everything that a vector covers is known, so that the oracle can answer for it.
    func covers(_ vector: VersionVector) -> Bool { self.vector.covers(vector) }

    /// The oracle's answer for the transactions that a vector covers. The last few are kept,
    /// because several readings of one state follow each other.
    ///
    /// - Precondition: ``covers(_:)``; else the answer lacks what is not known.
    func oracle(at vector: VersionVector) -> ReferenceModel {
        let isKnown = covers(vector)
        let known = oracles.first { $0.vector == vector && $0.edition == edition }
        if let known { return known.oracle }
        let oracle = ReferenceModel(model, transactions, at: vector, former: former)
        guard isKnown else { return oracle }
        if oracles.count >= 8 { oracles.removeFirst() }
        oracles.append((vector, edition, oracle))
        return oracle
    }

    /// The writes to a row, in the order of their stamps; for a violation's text.
    func history(of row: RowID) -> String {
        transactions.filter { $0.changes.contains { $0.row == row } }
            .sorted { $0.stamp < $1.stamp }
            .map { transaction in
                let kinds = transaction.changes.filter { $0.row == row }.map { "\($0.kind)" }
                let seen = transaction.seen.entries.map { "\($0.actor)-\($0.sequence)" }
                return "\(transaction.dot) \(kinds.joined(separator: "+")) at "
                    + "\(transaction.timestamp) having seen [\(seen.joined(separator: " "))]"
            }.joined(separator: ", ")
    }

    /// A transaction's values of a row, by property, with those that stand for properties that its
    /// model lacks.
    ///
    /// - Parameter isClosed: whether a closed entry of a journal tells it. That keeps the names of
    ///   the model that it was closed under, which is any before the present one: no two of them have
    ///   a name for two properties, so one that is another's is not taken for it.
    func values(
        of row: RowID, in transaction: Transaction, isClosed: Bool
    ) -> [String: PropertyValue] {
        guard models.count > 1, let place = places[transaction.dot] else {
            return transaction.values(of: row)
        }
        var result = values(of: row, at: place, by: edition)
        guard isClosed else { return result }
        for (other, _) in translations[edition] {
            result.merge(values(of: row, at: place, by: other)) { first, _ in first }
        }
        return result
    }

    /// Whether a transaction wrote a value to a property of any row, by the same names.
    func hasWritten(
        _ value: PropertyValue, to name: String, in transaction: Transaction, isClosed: Bool
    ) -> Bool {
        if transaction.hasWritten(value, to: name) { return true }
        guard models.count > 1, isClosed, let place = places[transaction.dot] else { return false }
        return translations[edition].contains { other, _ in
            translated[other][place].hasWritten(value, to: name)
        }
    }

    /// A transaction's values of a row as a node of an edition has them.
    private func values(
        of row: RowID, at place: Int, by edition: Int
    ) -> [String: PropertyValue] {
        let transaction = translated[edition][place]
        var result = transaction.values(of: row)
        guard let before = words(transaction.modelHash, at: edition)?.model else { return result }
        for change in transaction.changes where change.row == row && change.target == nil {
            guard transaction.shapes.indices.contains(change.shape),
                let entity = models[edition].entity(
                    named: transaction.shapes[change.shape].entity)
            else { continue }
            // Any other write says nothing of what it does not name.
            let isWhole = change.kind == .insert || change.kind == .revival
            guard isWhole || entity.policies.isRowGrained else { continue }
            for property in entity.properties
            where before.entity(named: entity.name)?.position(of: property.name) == nil
                && result[property.name] == nil
            {
                result[property.name] = ReferenceModel.standIn(property, of: entity)
            }
        }
        return result
    }

    /// A closed conflict with the names that its parts have by now: what is closed keeps the names of
    /// its time. Those of each model before the present one, because it does not say which that
    /// was.
    func inAllNames(_ conflict: Conflict) -> [Conflict] {
        guard models.count > 1, !conflict.isOpen else { return [conflict] }
        let entity = conflict.id.entity
        return [conflict]
            + translations[edition].compactMap { _, words in
                func now(_ name: String) -> String { words.property(name, of: entity) ?? name }
                var result = conflict
                result.property = conflict.property.map(now)
                for place in result.sides.indices {
                    result.sides[place].row = result.sides[place].row.map { entry in
                        ConflictSide.RowValue(
                            name: now(entry.name), value: entry.value, stamp: entry.stamp)
                    }
                }
                return result == conflict ? nil : result
            }
    }

    /// The oracle's answer for some hierarchies and links alone; cheaper by as much as they are
    /// fewer, and computed again only if one of them was written to.
    ///
    /// - Parameter subjects: names of root entities and of links. What references of theirs lead
    ///   to must be among them.
    func oracle(at vector: VersionVector, of subjects: Set<String>) -> ReferenceModel {
        let key = Subjects(names: subjects, edition: edition)
        var slice = slices[key] ?? OracleSlice(subjects: subjects)
        let oracle = slice.oracle(at: vector, of: transactions, model, former: former)
        slices[key] = slice
        return oracle
    }
}

/// The part of the archive that concerns some hierarchies and links.
private struct OracleSlice {
    private let subjects: Set<String>
    private var transactions: [Transaction] = []
    private var count = 0
    private var oracles: [(covered: [Int], oracle: ReferenceModel)] = []

    init(subjects: Set<String>) { self.subjects = subjects }

    mutating func oracle(
        at vector: VersionVector, of all: [Transaction], _ model: ManagedObjectModel,
        former: [[UInt8]: ManagedObjectModel]
    ) -> ReferenceModel {
        while count < all.count {
            if let part = part(of: all[count], model) { transactions.append(part) }
            count += 1
        }
        let covered = transactions.indices.filter { vector.contains(transactions[$0].dot) }
        if let known = oracles.first(where: { $0.covered == covered }) { return known.oracle }
        let oracle = ReferenceModel(model, covered.map { transactions[$0] }, former: former)
        if oracles.count >= 8 { oracles.removeFirst() }
        oracles.append((covered, oracle))
        return oracle
    }

    /// A transaction without the changes that concern others; nil where none is left.
    private func part(of transaction: Transaction, _ model: ManagedObjectModel) -> Transaction? {
        let concerned = transaction.shapes.map { shape in
            subjects.contains(model.entity(named: shape.entity)?.root ?? shape.entity)
        }
        var part = transaction
        part.changes.removeAll {
            !concerned.indices.contains($0.shape) || !concerned[$0.shape]
        }
        return part.changes.isEmpty ? nil : part
    }
}
