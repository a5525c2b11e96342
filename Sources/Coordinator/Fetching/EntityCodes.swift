/// The numbers that stand for entities in column `_entity`.
public struct EntityCodes: Sendable {
    private let codes: [String: Int64]

    /// Takes the numbers by entity name.
    public init(_ codes: [String: Int64]) { self.codes = codes }

    /// The number of an entity; -1, which no row has, for one without.
    public func code(_ entity: String) -> Int64 { codes[entity] ?? -1 }
}
