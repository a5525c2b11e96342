internal import Coordinator
internal import Merge

/// One checker's findings in one run, bounded: of one mistake a run shows thousands, and the first
/// few say it all.
struct Findings {
    /// The most lines of one kind that a run reports.
    static let linesOfKind = 5

    private var counts: [String: Int] = [:]
    private var lines: [String] = []

    /// Notes a violation, unless its kind was noted often enough.
    ///
    /// - Parameter kind: what kind of violation, in a word or two.
    mutating func note(_ kind: String, _ text: @autoclosure () -> String) {
        let count = counts[kind, default: 0]
        guard count < Self.linesOfKind else { return }
        counts[kind] = count + 1
        lines.append(text())
    }

    /// Whether a kind was noted as often as it is reported, so that looking further is idle.
    func isFull(_ kind: String) -> Bool { counts[kind, default: 0] >= Self.linesOfKind }

    /// The findings since this was last asked.
    mutating func take() -> [String] {
        if lines.isEmpty { return [] }
        defer { lines = [] }
        return lines
    }
}

/// Names and differences as violations tell them.
enum Telling {
    /// A machine's name, as the trace has it.
    static func node(_ number: Int) -> String { "node \(number + 1)" }

    /// A few dots of a list, in its order.
    static func dots(_ dots: some Sequence<Dot>) -> String {
        let all = Array(dots)
        let shown = all.prefix(3).map(\.description).joined(separator: ", ")
        return all.count > 3 ? "\(shown) and \(all.count - 3) more" : shown
    }

    /// The part of one vector beyond another, by the last transaction of each actor.
    static func surplus(_ vector: VersionVector, over other: VersionVector) -> String {
        let lacking = vector.entries.filter { other[$0.actor] < $0.sequence }
        if lacking.isEmpty { return "nothing" }
        return dots(lacking.map { Dot(actor: $0.actor, sequence: $0.sequence) })
    }

    /// A value, shortened.
    static func value(_ value: PropertyValue?) -> String {
        guard let value else { return "nothing" }
        let text = "\(value)"
        return text.count > 60 ? "\(text.prefix(57))..." : text
    }

    /// Where two snapshots of one row differ; nil where they do not.
    static func difference(
        _ expected: RowSnapshot, _ found: RowSnapshot, _ model: ManagedObjectModel
    ) -> String? {
        if expected == found { return nil }
        let entity = model.entity(named: found.objectID.entityName)
        for position in found.values.indices
        where position < expected.values.count
            && expected.values[position] != found.values[position]
        {
            let columns = entity?.columns ?? []
            let name = position < columns.count ? columns[position].name : "\(position)"
            return "\(found.objectID).\(name): expected \(value(expected.values[position])), "
                + "found \(value(found.values[position]))"
        }
        if expected.version != found.version {
            return "\(found.objectID) version: expected \(expected.version), "
                + "found \(found.version)"
        }
        return "\(found.objectID) conflicted: expected \(expected.isConflicted), "
            + "found \(found.isConflicted)"
    }
}
