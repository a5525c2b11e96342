import Coordinator
import Merge
import ReferenceModel

/// Saves written by hand, without a coordinator: who made them, when, and what they had seen.
struct HandHistory {
    let model: ManagedObjectModel
    private(set) var saves: [Transaction] = []

    init(_ model: ManagedObjectModel) { self.model = model }

    /// One row's or link's part of a save.
    struct Part {
        let kind: Change.Kind
        let entity: String
        let row: RowID
        var target: RowID?
        var assigned: [String: PropertyValue] = [:]
        var carried: [String: PropertyValue] = [:]

        static func insert(
            _ entity: String, _ row: RowID, _ values: [String: PropertyValue] = [:]
        ) -> Part { Part(kind: .insert, entity: entity, row: row, assigned: values) }

        static func update(
            _ entity: String, _ row: RowID, _ values: [String: PropertyValue],
            rest: [String: PropertyValue] = [:]
        ) -> Part {
            Part(kind: .update, entity: entity, row: row, assigned: values, carried: rest)
        }

        static func revive(
            _ entity: String, _ row: RowID, _ values: [String: PropertyValue]
        ) -> Part { Part(kind: .revival, entity: entity, row: row, assigned: values) }

        static func delete(_ entity: String, _ row: RowID) -> Part {
            Part(kind: .delete, entity: entity, row: row)
        }

        static func link(_ name: String, _ row: RowID, _ target: RowID) -> Part {
            Part(kind: .link, entity: name, row: row, target: target)
        }

        static func unlink(_ name: String, _ row: RowID, _ target: RowID) -> Part {
            Part(kind: .unlink, entity: name, row: row, target: target)
        }
    }

    /// Adds a save.
    ///
    /// - Parameters:
    ///   - node: who saves; its earlier saves are seen.
    ///   - time: when, in seconds.
    ///   - seeing: whose saves it has seen, each with all that those had seen.
    ///   - oldModel: the model it was written with, where that is another.
    /// - Returns: its dot.
    @discardableResult
    mutating func save(
        _ node: Int, at time: UInt64, seeing: [Dot] = [], with oldModel: ManagedObjectModel? = nil,
        _ parts: Part...
    ) -> Dot {
        guard let number = NodeID(node),
            let timestamp = HybridTimestamp(milliseconds: time * 1000, counter: 0)
        else { preconditionFailure("No such node or time.") }
        let actor = ActorID(node: number, incarnation: 1)
        var seen = VersionVector()
        for earlier in saves where earlier.dot.actor == actor || seeing.contains(earlier.dot) {
            seen.join(earlier.seen)
            seen.advance(to: earlier.dot)
        }
        let dot = Dot(actor: actor, sequence: seen[actor] + 1)
        var shapes: [ChangeShape] = []
        var changes: [Change] = []
        for part in parts {
            let assigned = part.assigned.sorted { $0.key < $1.key }
            let carried = part.carried.sorted { $0.key < $1.key }
            shapes.append(
                ChangeShape(
                    entity: part.entity, assigned: assigned.map(\.key),
                    carried: carried.map(\.key)))
            changes.append(
                Change(
                    kind: part.kind, shape: shapes.count - 1, row: part.row, target: part.target,
                    values: assigned.map(\.value) + carried.map(\.value)))
        }
        saves.append(
            Transaction(
                dot: dot, timestamp: timestamp, seen: seen,
                modelHash: (oldModel ?? model).modelHash, shapes: shapes, changes: changes))
        return dot
    }

    /// What the reference model makes of the saves; of their reverse too, to be sure.
    func truth(at vector: VersionVector? = nil, older: [ManagedObjectModel] = []) -> ReferenceModel
    {
        ReferenceModel(model, saves.reversed() + saves, at: vector, olderModels: older)
    }
}
