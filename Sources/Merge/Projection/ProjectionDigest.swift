/// 128 bits that stand for everything readers see in a store, kept up incrementally.
///
/// It is the sum of its rows' hashes in two lanes of 64 bits, so the order of changes does not
/// matter and a row is replaced by subtracting its old hash and adding its new one. Equal
/// vectors must have equal digests (DESIGN section 7); whatever collapse may remove at different
/// times on different nodes is not in it.
public struct ProjectionDigest: Hashable, Sendable, CustomStringConvertible {
    /// The upper lane.
    public private(set) var high: UInt64
    /// The lower lane.
    public private(set) var low: UInt64

    /// The digest of a store without rows.
    public init() {
        high = 0
        low = 0
    }

    /// Restores a digest from its lanes.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Adds what other rows add up to.
    public mutating func add(_ digest: ProjectionDigest) { add((digest.high, digest.low)) }

    /// Adds a row's hash.
    public mutating func add(_ hash: (UInt64, UInt64)) {
        high &+= hash.0
        low &+= hash.1
    }

    /// Takes a row's hash out again.
    public mutating func subtract(_ hash: (UInt64, UInt64)) {
        high &-= hash.0
        low &-= hash.1
    }

    /// 32 hexadecimal digits.
    public var description: String {
        func padded(_ lane: UInt64) -> String {
            let digits = String(lane, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        return padded(high) + padded(low)
    }

    /// Reads what ``description`` prints; nil where it is anything else.
    public init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 32,
            let high = UInt64(String(decoding: digits[0..<16], as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits[16..<32], as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
        // Integer parsing also takes signs and capitals.
        guard description.utf8.elementsEqual(digits) else { return nil }
    }
}

/// The names under which an entity's rows are hashed, prepared once.
public struct DigestNames: Hashable, Sendable {
    /// The entity's seed.
    public let entity: UInt64
    /// Each property's seed, in canonical order.
    public let properties: [UInt64]

    /// Prepares an entity's names.
    public init(entity: String, properties: [String]) {
        self.entity = Self.hash(entity)
        self.properties = properties.map(Self.hash)
    }

    private static func hash(_ name: String) -> UInt64 {
        var hasher = StableHasher(seed: 1)
        hasher.combine(name)
        return hasher.finalize().0
    }
}

/// Hashes one row's projection, property by property.
///
/// A property that shows null by the row's own insertion hashes as if it were not there, so that
/// an added optional column changes no digest.
public struct RowHasher: Sendable {
    private var hasher: StableHasher
    private let insertion: Dot?

    /// Begins a row.
    ///
    /// - Parameter insertion: the dot of the write that counts as the row's insertion; nil where it
    ///   is told at the end, and all values are by it.
    public init(entity: UInt64, row: RowID, insertion: Dot?) {
        hasher = StableHasher(seed: entity)
        hasher.combine(UInt64(bitPattern: row.rawValue))
        self.insertion = insertion
    }

    /// Adds a visible value with the dot that won.
    public mutating func combine(property: UInt64, value: PropertyValue, dot: Dot?) {
        if value.isNull, dot == insertion { return }
        hasher.combine(property)
        if let dot, dot != insertion { hasher.combine(dot) }
        hasher.combine(value)
    }

    /// Adds the siblings' dots of an unresolved conflict.
    public mutating func combine(unresolved property: UInt64, dots: [Dot]) {
        hasher.combine(property ^ 0x5555)
        for dot in dots.sorted() { hasher.combine(dot) }
    }

    /// The row's hash.
    public func finalize() -> (UInt64, UInt64) {
        guard let insertion else {
            fatalError("A row's hash needs the dot of its insertion.")
        }
        return finalize(insertion: insertion)
    }

    /// The hash of a row whose insertion was not known at the beginning. The dot comes last, so that
    /// very many rows are hashed before it is known.
    public func finalize(insertion: Dot) -> (UInt64, UInt64) {
        var hasher = hasher
        hasher.combine(insertion)
        return hasher.finalize()
    }
}
