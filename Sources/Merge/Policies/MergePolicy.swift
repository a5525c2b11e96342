/// How concurrent writes to one register are settled: a grid of granularity and choice.
///
/// | policy | register | visible sibling | Core Data's name |
/// |---|---|---|---|
/// | ``error`` | property | earliest, flagged | NSErrorMergePolicy |
/// | ``errorByRow`` | row | earliest that is alive, flagged | |
/// | ``mergeByPropertyStoreTrump`` | property | earliest | NSMergeByPropertyStoreTrump |
/// | ``mergeByPropertyObjectTrump`` | property | latest | NSMergeByPropertyObjectTrump |
/// | ``rollback`` | row | earliest | NSRollbackMergePolicy |
/// | ``overwrite`` | row | latest | NSOverwriteMergePolicy |
/// | ``named(_:)`` | property | as the application chooses | |
///
/// The same names settle a save whose context is stale; see the Coordinator's documentation.
public enum MergePolicy: Sendable {
    /// Nobody wins: the earliest is shown and the conflict stays unresolved. The default.
    case error
    /// As ``error``, the whole row being one register.
    case errorByRow
    /// The store's earlier value stands, property by property.
    case mergeByPropertyStoreTrump
    /// The newer object's change stands, property by property.
    case mergeByPropertyObjectTrump
    /// The store's earlier row stands, as a whole.
    case rollback
    /// The newer object stands, row by row.
    case overwrite
    /// A policy of the application's own, for an attribute.
    case named(NamedMergePolicy)

    /// The extent of one register.
    public enum Granularity: Hashable, Sendable {
        /// Each property of a row by itself.
        case property
        /// The row's existence and all its values together.
        case row
    }

    /// Which sibling readers see.
    public enum Choice: Hashable, Sendable {
        /// The first by the total order of stamps.
        case earliest
        /// The last by the total order of stamps.
        case latest
    }

    /// The extent of one register.
    public var granularity: Granularity {
        switch self {
        case .error, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .named: .property
        case .errorByRow, .rollback, .overwrite: .row
        }
    }

    /// Which sibling readers see. Where a policy of the application's own chooses, the latest is what
    /// has no values to choose by, as in a property of no object.
    public var choice: Choice {
        switch self {
        case .error, .errorByRow, .mergeByPropertyStoreTrump, .rollback: .earliest
        case .mergeByPropertyObjectTrump, .overwrite, .named: .latest
        }
    }

    /// Whether siblings that differ stay in conflict until somebody resolves them.
    public var leavesUnresolved: Bool {
        switch self {
        case .error, .errorByRow: true
        default: false
        }
    }
}

extension MergePolicy: CaseIterable {
    /// Those that every program has: all but ``named(_:)``.
    public static let allCases: [MergePolicy] = [
        .error, .errorByRow, .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .rollback,
        .overwrite,
    ]
}

extension MergePolicy: RawRepresentable {
    /// The policy of a name, as models have it; nil where the program has none.
    public init?(rawValue: String) {
        if let policy = Self.allCases.first(where: { $0.rawValue == rawValue }) {
            self = policy
        } else if let policy = NamedMergePolicy.registered(rawValue) {
            self = .named(policy)
        } else {
            return nil
        }
    }

    /// The name, as models have it.
    public var rawValue: String {
        switch self {
        case .error: "error"
        case .errorByRow: "errorByRow"
        case .mergeByPropertyStoreTrump: "mergeByPropertyStoreTrump"
        case .mergeByPropertyObjectTrump: "mergeByPropertyObjectTrump"
        case .rollback: "rollback"
        case .overwrite: "overwrite"
        case .named(let policy): policy.text
        }
    }
}

extension MergePolicy: Hashable {
    /// A number for each policy.
    private var number: UInt32 {
        switch self {
        case .error: 0
        case .errorByRow: 1
        case .mergeByPropertyStoreTrump: 2
        case .mergeByPropertyObjectTrump: 3
        case .rollback: 4
        case .overwrite: 5
        case .named(let policy): 6 + UInt32(policy.place)
        }
    }

    /// Whether two policies are one. Names would do, and take longer.
    public static func == (one: MergePolicy, other: MergePolicy) -> Bool {
        one.number == other.number
    }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

/// The policies of one entity, as merging needs them.
///
/// Properties are in the entity's canonical order: by the UTF-8 bytes of their names.
///
/// Invariant: where the entity's policy is row-grained, no property has one of its own.
public struct EntityPolicies: Hashable, Sendable {
    /// The entity's policy. Existence follows it, never a property's override.
    public let entity: MergePolicy
    /// Each property's policy, in canonical order.
    public let properties: [MergePolicy]

    /// Collects an entity's policies.
    ///
    /// - Precondition: overrides only where the entity is property-grained, and property-grained;
    ///   the entity's is not the application's own.
    public init(
        entity: MergePolicy, properties: [MergePolicy], file: StaticString = #fileID,
        line: UInt = #line
    ) {
        if case .named(let policy) = entity {
            misuse("Merge policy \(policy.text) is for attributes.", at: SourcePlace(file, line))
        }
        require(
            entity.granularity == .row
                || properties.allSatisfy { $0.granularity == .property },
            "A property's merge policy must be property-grained, not \(properties).",
            at: SourcePlace(file, line))
        self.entity = entity
        self.properties =
            entity.granularity == .row
            ? Array(repeating: entity, count: properties.count) : properties
    }

    /// Whether the whole row is one register.
    public var isRowGrained: Bool { entity.granularity == .row }
}
