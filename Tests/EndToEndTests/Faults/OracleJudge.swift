import Coordinator
import Merge
import ReferenceModel

/// Compares what nodes answered with what the oracle computes from the set of saves alone, each
/// answer at its own vector (laws 3, 4, 5 and 12).
///
/// It asks no node anything, so that it can be shown forged answers.
struct OracleJudge {
    /// The most findings reported of one answer: a fault in one object is a fault in many.
    private static let complaintLimit = 4

    private let model: ManagedObjectModel
    private let cluster: String
    private let transactions: [Transaction]
    /// Of each actor how much is known without a gap.
    private let known: VersionVector
    /// What bears on an entity, by its name: the rest would only cost time.
    private var parts: [String: [Transaction]] = [:]
    /// The last view, for pins and final contents are of one state several times over.
    private var last: (entity: String, vector: VersionVector, view: OracleView)?

    /// - Parameter transactions: all saves of the cluster, in any order, each once.
    init(_ model: ManagedObjectModel, _ transactions: [Transaction], cluster: String = "test") {
        self.model = model
        self.cluster = cluster
        self.transactions = transactions
        var known = VersionVector()
        for dot in transactions.map(\.dot).sorted() where known[dot.actor] + 1 == dot.sequence {
            known.advance(dot.actor, to: dot.sequence)
        }
        self.known = known
    }

    // MARK: - Readings

    /// What is wrong with a reading; nothing where it is what the oracle says at its vector.
    ///
    /// - Parameter isFinal: whether all saves must be in it.
    mutating func complaints(about reading: Reading, isFinal: Bool = false) -> [String] {
        guard known.covers(reading.vector) else {
            return ["\(reading): names transactions that no log has; known is \(known.text)"]
        }
        if isFinal, reading.vector != known {
            return ["\(reading): lacks some of \(known.text)"]
        }
        let view = view(reading.entity, reading.vector)
        switch reading.content {
        case .count(let count):
            let expected = view.count(reading.entity)
            return count == Int64(expected)
                ? [] : ["\(reading): expected \(expected) objects, found \(count) counted"]
        case .objects(let objects):
            let differences = Self.differences(objects, view.objects(reading.entity))
            return differences.prefix(Self.complaintLimit).map { "\(reading): \($0)" }
        }
    }

    /// What is wrong with a pinned generation: it moved, or never was what it should be.
    mutating func complaints(about pin: PinnedReading) -> [String] {
        var result: [String] = []
        for reading in [pin.first, pin.second] where reading.vector != pin.vector {
            result.append("\(reading): pinned was \(pin.vector.text)")
        }
        result += complaints(about: pin.first)
        if pin.second.content != pin.first.content {
            result.append("\(pin.second): a pinned generation changed")
            result += complaints(about: pin.second)
        }
        return result
    }

    private mutating func view(_ entity: String, _ vector: VersionVector) -> OracleView {
        if let last, last.entity == entity, last.vector == vector { return last.view }
        let part = parts[entity] ?? part(of: entity)
        parts[entity] = part
        let view = OracleView(model, ReferenceModel(model, part, at: vector), cluster: cluster)
        last = (entity, vector, view)
        return view
    }

    private static func differences(
        _ found: [JSONObject], _ expected: [String: JSONObject]
    ) -> [String] {
        var result: [String] = []
        var missing = expected
        for object in found {
            let id = object.text("id")
            guard let right = missing.removeValue(forKey: id) else {
                let what = expected[id] == nil ? "no such object" : "it once"
                result.append("expected \(what), found \(JSONWriter.text(of: .object(object)))")
                continue
            }
            for key in ["entity", "version", "conflicted"] where object[key] != right[key] {
                result.append(
                    "\(id): expected \(key) \(text(right[key])), found \(text(object[key]))")
            }
            let (own, others) = (right["values"]?.object ?? [:], object["values"]?.object ?? [:])
            for key in Set((own.members + others.members).map(\.key)).sorted()
            where sorted(own[key]) != sorted(others[key]) {
                result.append(
                    "\(id).\(key): expected \(text(own[key])), found \(text(others[key]))")
            }
        }
        for (id, object) in missing.sorted(by: { $0.key < $1.key }) {
            result.append("\(id): expected with version \(object.text("version")), found gone")
        }
        return result
    }

    /// Members of a to-many are a set.
    private static func sorted(_ value: JSONValue?) -> JSONValue? {
        guard let members = value?.array else { return value }
        return .array(members.sorted { ($0.string ?? "") < ($1.string ?? "") })
    }

    private static func text(_ value: JSONValue?) -> String {
        value.map { JSONWriter.text(of: $0) } ?? "nothing"
    }

    // MARK: - Conflicts

    /// What is wrong with what nodes that have all saves list as unresolved: they must list exactly
    /// what the oracle finds, each with all its sides.
    func complaints(aboutUnresolved lists: [(node: Int, conflicts: [JSONObject])]) -> [String] {
        var expected: [String: Set<String>] = [:]
        for conflict in ReferenceModel(model, transactions).openConflicts()
        where conflict.isUnresolved {
            expected[conflict.id] = Set(conflict.sides.map(\.description))
        }
        return lists.flatMap { node, conflicts in
            var missing = expected
            var result: [String] = []
            for conflict in conflicts {
                let id = conflict.text("id")
                let sides = (conflict["sides"]?.array ?? []).map { $0.object?.text("dot") ?? "" }
                guard let right = missing.removeValue(forKey: id) else {
                    result.append("node \(node) lists \(id), of \(sides): no such conflict is left")
                    continue
                }
                if right != Set(sides) {
                    result.append(
                        "node \(node), \(id): expected sides \(right.sorted()), found \(sides)")
                }
            }
            result += missing.keys.sorted().map { "node \(node) does not list \($0)" }
            return Array(result.prefix(Self.complaintLimit))
        }
    }

    // MARK: - Parts

    /// The transactions without the changes that have no bearing on an entity; those left empty are
    /// left out.
    private func part(of entity: String) -> [Transaction] {
        let subjects = subjects(of: entity)
        return transactions.compactMap { transaction in
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

    /// The root entities and links that what is shown of an entity may hang on: all that its
    /// hierarchy leads to, and what that leads to.
    private func subjects(of entity: String) -> Set<String> {
        var result = Set<String>()
        var next = [entity]
        while let name = next.popLast() {
            guard let found = model.entity(named: name), result.insert(found.root).inserted
            else { continue }
            let heirs = model.entities.filter { $0.root == found.root }
            for relationship in heirs.flatMap(\.relationships) {
                next.append(relationship.destination)
                if case .link(let link, _) = relationship.storage { result.insert(link) }
            }
        }
        return result
    }
}
