/// All that merging keeps of one row: its registers. Pure; the store only encodes and decodes it.
///
/// Invariants
/// 1. Under a row-grained policy `properties` are empty registers: the values are in `existence`.
/// 2. `collapsedDots` and the dots of `existence` together are the row's version; only writes
///    remove dots from it, never collapse (MODEL P2).
/// 3. `insertion` is never empty once the row exists; its earliest sibling is the row's rank
///    (MODEL P6).
package struct RowState: Hashable, Sendable {
    /// Whether the row is there, by every write that touched it.
    package var existence: Register<Existence>
    /// The writes that inserted or revived the row.
    package var insertion: Register<Bool>
    /// One register a property, in the entity's canonical order.
    package var properties: [Register<PropertyValue>]
    /// Dots of the version whose existence siblings have collapsed, sorted.
    package var collapsedDots: [Dot]
    /// The insertions' differences from what their values say, see ``isAssigned(_:at:)``.
    package var exceptions: [InsertionException] = []

    /// A row of so many properties that nothing is known of.
    package init(propertyCount: Int) {
        existence = Register()
        insertion = Register()
        properties = Array(repeating: Register(), count: propertyCount)
        collapsedDots = []
    }

    /// The row as one insertion alone left it.
    ///
    /// - Parameters:
    ///   - stamp: the insertion's.
    ///   - values: of all properties, in the entity's canonical order.
    ///   - isRowGrained: whether the row is one register.
    package init(insertedBy stamp: Stamp, values: [PropertyValue], isRowGrained: Bool) {
        insertion = Register(Sibling(stamp: stamp, value: true))
        existence = Register(
            Sibling(stamp: stamp, value: isRowGrained ? .whole(values) : .alive))
        properties =
            isRowGrained
            ? Array(repeating: Register(), count: values.count)
            : Self.registers(values, writtenBy: stamp)
        collapsedDots = []
    }

    /// The registers of values that one write has left alone. Made here, where the compiler knows of
    /// what they are.
    package static func registers(
        _ values: [PropertyValue], writtenBy stamp: Stamp
    ) -> [Register<PropertyValue>] {
        values.map { Register(Sibling(stamp: stamp, value: $0)) }
    }

    /// Whether nothing was ever written.
    package var isEmpty: Bool { existence.siblings.isEmpty }

    /// The row's version: the dots of its existence register's siblings, sorted.
    ///
    /// Equal version means equal visible values and dots, on any node, within one model.
    package var version: RowVersion {
        if collapsedDots.isEmpty, existence.siblings.count == 1 {
            return RowVersion(dots: [existence.siblings[0].dot])
        }
        return RowVersion(dots: existence.siblings.map(\.dot) + collapsedDots)
    }
}

/// Positions at which an insertion's assignments are not what its values tell.
package struct InsertionException: Hashable, Sendable {
    /// The transaction that inserted or revived the row.
    package let dot: Dot
    /// Positions where it wrote a value that nobody assigned, or a null that somebody did; rising.
    package let positions: [Int]

    /// Describes an exception.
    package init(dot: Dot, positions: [Int]) {
        self.dot = dot
        self.positions = positions
    }
}

extension RowState {
    /// Whether somebody assigned a property's value: a default is no assignment, nor is the null
    /// that an insertion leaves where it says nothing.
    ///
    /// So that plain rows need to keep nothing, an insertion's values count as assigned where
    /// they are not null, and ``exceptions`` list where that is wrong.
    ///
    /// - Parameters:
    ///   - sibling: of the property's register.
    ///   - position: the property's.
    package func isAssigned(_ sibling: Sibling<PropertyValue>, at position: Int) -> Bool {
        guard insertion.siblings.contains(where: { $0.dot == sibling.dot }) else { return true }
        let isException = exceptions.contains {
            $0.dot == sibling.dot && $0.positions.contains(position)
        }
        return sibling.value.isNull == isException
    }

    /// Forgets exceptions of writes that are in no register any more.
    mutating func pruneExceptions() {
        exceptions.removeAll { exception in
            !exception.positions.contains { position in
                properties[position].siblings.contains { $0.dot == exception.dot }
            }
        }
    }
}
