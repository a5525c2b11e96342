/// The numbers that stand for entities in column `_entity`.
package struct EntityCodes: Sendable {
    private let codes: [String: Int64]

    /// Takes the numbers by entity name.
    package init(_ codes: [String: Int64]) { self.codes = codes }

    /// The number of an entity; -1, which no row has, for one without.
    package func code(_ entity: String) -> Int64 { codes[entity] ?? -1 }
}
