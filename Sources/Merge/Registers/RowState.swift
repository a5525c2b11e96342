/// All that merging keeps of one row: its registers. Pure; the store only encodes and decodes it.
///
/// Invariants
/// 1. Under a row-grained policy `properties` are empty registers: the values are in `existence`.
/// 2. `collapsedDots` and the dots of `existence` together are the row's version; only writes
///    remove dots from it, never collapse (MODEL P2).
/// 3. `insertion` is never empty once the row exists; its earliest sibling is the row's rank
///    (MODEL P6).
public struct RowState: Hashable, Sendable {
    /// Whether the row is there, by every write that touched it.
    public var existence: Register<Existence>
    /// The writes that inserted or revived the row.
    public var insertion: Register<Bool>
    /// One register a property, in the entity's canonical order.
    public var properties: [Register<PropertyValue>]
    /// Dots of the version whose existence siblings have collapsed, sorted.
    public var collapsedDots: [Dot]

    /// A row of so many properties that nothing is known of.
    public init(propertyCount: Int) {
        existence = Register()
        insertion = Register()
        properties = Array(repeating: Register(), count: propertyCount)
        collapsedDots = []
    }

    /// Whether nothing was ever written.
    public var isEmpty: Bool { existence.siblings.isEmpty }

    /// The row's version: the dots of its existence register's siblings, sorted.
    ///
    /// Equal version means equal visible values and dots, on any node, within one model.
    public var version: RowVersion {
        if collapsedDots.isEmpty, existence.siblings.count == 1 {
            return RowVersion(dots: [existence.siblings[0].dot])
        }
        return RowVersion(dots: existence.siblings.map(\.dot) + collapsedDots)
    }
}

/// The version of a row: a set of dots, nearly always one. Core Data's Z_OPT, made distributed.
public struct RowVersion: Hashable, Sendable, CustomStringConvertible {
    /// The dots, sorted and unique.
    public let dots: [Dot]

    /// Makes a version of dots in any order.
    public init(dots: [Dot]) {
        self.dots = dots.count < 2 ? dots : Array(Set(dots)).sorted()
    }

    /// The dots joined by `+`.
    public var description: String { dots.map(\.description).joined(separator: "+") }

    /// Reads what ``description`` prints; nil where it is anything else.
    public init?(_ text: some StringProtocol) {
        var dots: [Dot] = []
        for part in text.split(separator: "+", omittingEmptySubsequences: false) {
            guard let dot = Dot(part), dots.count < 1024 else { return nil }
            if let last = dots.last, last >= dot { return nil }
            dots.append(dot)
        }
        guard !dots.isEmpty else { return nil }
        self.init(dots: dots)
    }
}
