internal import Coordinator
internal import Merge
internal import Replication

/// Increments and conditions on the same few rows, several saves as one group. Each sum must follow
/// from the one before it, and a save whose condition does not hold must fail.
struct HotRows: Workload {
    let name = "hot-rows"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !Self.numbers(of: $0).isEmpty }
    }

    /// The attributes of an entity that hold integers.
    private static func numbers(of entity: ManagedObjectModel.Entity) -> [Int] {
        ModelStructure.attributes(entity).filter {
            entity.properties[$0].content == .attribute(.integer64)
        }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let entities = ModelStructure.concrete(session.model).filter {
            !Self.numbers(of: $0).isEmpty
        }
        guard let entity = generator.choice(entities) else { return }
        let rows = session.rows(entity, &generator)
        guard let row = generator.hot(rows),
            let own = session.model.entity(named: row.objectID.entityName),
            let position = generator.choice(Self.numbers(of: own))
        else {
            var composer = SaveComposer(session)
            composer.insert(entity, &generator)
            session.save(composer.request(&generator))
            return
        }
        guard case .integer(let shown) = row.values[position] else {
            var composer = SaveComposer(session)
            composer.update(
                row, values: [(position, .integer(0))], basis: .blind, resolves: true, &generator)
            session.save(composer.request(&generator))
            return
        }
        add(to: row, own, position, shown, session, &generator)
    }

    private func add(
        to row: RowSnapshot, _ entity: ManagedObjectModel.Entity, _ position: Int,
        _ shown: Int64, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        let name = entity.properties[position].name
        var requests: [SaveRequest] = []
        var amounts: [Int64] = []
        var conditions: [Condition?] = []
        for _ in 0..<(2 + generator.number(below: 4)) {
            let amount = Int64(generator.number(below: 7)) - 3
            var operation = SaveOperation(
                kind: .update, entity: entity, row: row.objectID.row, resolves: true)
            operation.increments = [(position, .integer(amount))]
            let condition: Condition? =
                generator.chance(in: 2)
                ? nil
                : Condition(
                    isEqual: generator.chance(in: 2),
                    value: shown &+ Int64(generator.number(below: 5)))
            operation.condition = condition.flatMap { condition in
                try? SaveCondition(
                    condition.predicate(name), entity: entity, model: session.model)
            }
            var composer = SaveComposer(session)
            composer.add(operation)
            requests.append(composer.request(under: .error, &generator))
            amounts.append(amount)
            conditions.append(condition)
        }
        var value = shown
        for (place, result) in session.saveTogether(requests).enumerated() {
            guard let result else { continue }
            if let condition = conditions[place], !condition.holds(of: value) {
                session.memory.complain(
                    "a save went through, but \(name) is \(value): expected \(condition)")
            }
            guard let sum = result.incremented.first, sum.objectID == row.objectID else { return }
            let (expected, _) = value.addingReportingOverflow(amounts[place])
            if sum.value != .integer(expected) {
                session.memory.complain(
                    "\(value) + \(amounts[place]) is \(sum.value) in \(name) of \(row.objectID)")
                return
            }
            value = expected
        }
    }

    /// A condition on one integer.
    private struct Condition {
        let isEqual: Bool
        let value: Int64

        func predicate(_ name: String) -> Predicate {
            .comparison(
                PredicateComparison(
                    .keyPath([name]), isEqual ? .equal : .greaterOrEqual,
                    .constant(.integer(value))))
        }

        func holds(of number: Int64) -> Bool { isEqual ? number == value : number >= value }
    }
}
