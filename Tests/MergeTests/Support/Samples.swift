import Merge
import Testing

/// The node of that number; for tests only, which name none out of bounds.
func node(_ number: Int) -> NodeID {
    guard let node = NodeID(number) else { preconditionFailure("no node \(number)") }
    return node
}

/// An actor of the node.
func actor(_ number: Int, incarnation: UInt64 = 0xA0) -> ActorID {
    ActorID(node: node(number), incarnation: incarnation)
}

/// A dot of the node's one actor.
func dot(_ number: Int, _ sequence: UInt64) -> Dot {
    Dot(actor: actor(number), sequence: sequence)
}

/// A timestamp of so many milliseconds.
func timestamp(_ milliseconds: UInt64, counter: UInt16 = 0) -> HybridTimestamp {
    guard let time = HybridTimestamp(milliseconds: milliseconds, counter: counter) else {
        preconditionFailure("no time \(milliseconds)")
    }
    return time
}

/// A stamp of the node's one actor.
func stamp(_ number: Int, _ sequence: UInt64, at time: UInt64) -> Stamp {
    Stamp(timestamp: timestamp(time), dot: dot(number, sequence))
}

/// A vector from node numbers and sequences.
func vector(_ entries: [Int: UInt64]) -> VersionVector {
    VersionVector(entries.map { .init(actor: actor($0.key), sequence: $0.value) })
}

/// A policy for the entity and, where given, others for its properties.
struct PolicyCase: Sendable, CustomTestStringConvertible {
    let entity: MergePolicy
    let properties: [MergePolicy]

    /// Every policy of an entity, and every one of a property under some of them.
    static let all: [PolicyCase] = [
        PolicyCase(entity: .error, properties: [.error, .mergeByPropertyObjectTrump]),
        PolicyCase(
            entity: .mergeByPropertyStoreTrump, properties: [.mergeByPropertyStoreTrump, least]),
        PolicyCase(
            entity: .mergeByPropertyObjectTrump, properties: [.mergeByPropertyObjectTrump, .error]),
        PolicyCase(entity: .errorByRow, properties: [.errorByRow, .errorByRow]),
        PolicyCase(entity: .rollback, properties: [.rollback, .rollback]),
        PolicyCase(entity: .overwrite, properties: [.overwrite, .overwrite]),
    ]

    /// A policy of an application's own: the least integer, of equal ones the last.
    private static let least = NamedMergePolicy.register("leastOrLast", version: 1) { writes in
        var best = 0
        for place in writes.indices.dropFirst() {
            guard case .integer(let value) = writes[place].value,
                case .integer(let least) = writes[best].value
            else { continue }
            if value <= least { best = place }
        }
        return best
    }

    var policies: EntityPolicies { EntityPolicies(entity: entity, properties: properties) }

    var testDescription: String {
        "\(entity) with \(properties.map(\.rawValue).joined(separator: ", "))"
    }
}
