import Merge

// The product's own rules of who stands are what is judged, so the oracle has them written out
// once more, from the design.

extension MergePolicy {
    /// Which sibling readers see (DESIGN section 5.2).
    var stands: Choice {
        switch self {
        case .error, .errorByRow: .earliest
        case .mergeByPropertyStoreTrump, .rollback: .earliest
        case .mergeByPropertyObjectTrump, .overwrite, .named: .latest
        }
    }

    /// Whether a row and its values are one register, and not each value by itself.
    var isByRow: Bool {
        switch self {
        case .errorByRow, .rollback, .overwrite: true
        case .error, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .named: false
        }
    }

    /// Whether nobody wins, and what differs waits for somebody to resolve it.
    var asksSomebody: Bool {
        switch self {
        case .error, .errorByRow: true
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .rollback, .overwrite, .named:
            false
        }
    }
}

extension Stamp {
    /// The total order: (timestamp, NodeID, incarnation, sequence), as section 4 has it.
    func precedes(_ other: Stamp) -> Bool {
        if timestamp.rawValue != other.timestamp.rawValue {
            return timestamp.rawValue < other.timestamp.rawValue
        }
        let (own, its) = (dot.actor, other.dot.actor)
        if own.node.rawValue != its.node.rawValue { return own.node.rawValue < its.node.rawValue }
        if own.incarnation != its.incarnation { return own.incarnation < its.incarnation }
        return dot.sequence < other.dot.sequence
    }
}
