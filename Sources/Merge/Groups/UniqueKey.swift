/// A key that only one visible row may have: the values of a uniqueness constraint's properties.
///
/// Two rows share a key where their keys are equal. A row with a null among the values has no key
/// of that constraint, so none is made for it.
package struct UniqueKey: Hashable, Sendable {
    /// The constraint: the entity that declares it with the properties' names.
    package let constraint: String
    /// The values, in the constraint's order; never null.
    package let values: [PropertyValue]

    /// Makes a row's key of a constraint; nil where a value is null.
    ///
    /// - Parameters:
    ///   - constraint: a name that rows compete under.
    ///   - values: the row's own visible values, before any combination.
    package init?(constraint: String, values: [PropertyValue]) {
        if values.contains(where: \.isNull) { return nil }
        self.constraint = constraint
        self.values = values.map(Self.comparable)
    }

    /// SQLite, which holds visible rows to the constraint, takes the two zeros for one number.
    private static func comparable(_ value: PropertyValue) -> PropertyValue {
        if case .double(let number) = value, number == 0 { return .double(0) }
        return value
    }
}
