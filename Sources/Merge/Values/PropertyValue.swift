/// The value of a property: a closed set, compared bit by bit.
///
/// Swift compares strings by canonical equivalence and NaN as unequal to itself; a merge needs
/// "the same bytes on every node", so equality and hashing are defined here.
public enum PropertyValue: Sendable {
    /// No value.
    case null
    /// A truth value.
    case boolean(Bool)
    /// An integer of 16, 32 or 64 bits.
    case integer(Int64)
    /// A float or double. Every NaN counts as the one canonical NaN; -0.0 and 0.0 differ.
    case double(Double)
    /// A decimal number in its canonical text, see ``PropertyValue/canonicalDecimal(_:)``.
    case decimal(String)
    /// Text, compared by UTF-8 bytes.
    case string(String)
    /// A date in milliseconds since 1970.
    case date(Int64)
    /// Bytes.
    case binary([UInt8])
    /// A UUID: its first and its last eight bytes, big-endian.
    case uuid(UInt64, UInt64)
    /// A URI as text.
    case uri(String)
    /// A to-one relationship's target.
    case reference(RowID)

    /// Whether there is no value.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// The bits by which doubles are compared: all NaNs are one.
    static func canonicalBits(_ double: Double) -> UInt64 {
        double.isNaN ? 0x7FF8_0000_0000_0000 : double.bitPattern
    }

    /// Brings a decimal numeral to its canonical text: no plus, no leading or trailing zeros, no
    /// exponent; nil where it is no numeral or has more than 38 digits or places.
    public static func canonicalDecimal(_ text: String) -> String? {
        var bytes = Substring(text)
        let negative = bytes.first == "-"
        if negative || bytes.first == "+" { bytes = bytes.dropFirst() }
        var exponent = 0
        if let mark = bytes.firstIndex(where: { $0 == "e" || $0 == "E" }) {
            guard let number = Int(bytes[bytes.index(after: mark)...]),
                (-76...76).contains(number)
            else { return nil }
            exponent = number
            bytes = bytes[..<mark]
        }
        let parts = bytes.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, !whole.isEmpty || parts.count == 2 else { return nil }
        let fraction = parts.count == 2 ? parts[1] : ""
        var digits = Array((whole + fraction).utf8)
        guard !digits.isEmpty, digits.count <= 200,
            digits.allSatisfy({ (48...57).contains($0) })
        else { return nil }
        var point = whole.utf8.count + exponent
        while digits.last == 48, digits.count > max(point, 0) { digits.removeLast() }
        while digits.first == 48 {
            digits.removeFirst()
            point -= 1
        }
        if digits.isEmpty { return "0" }
        guard digits.count <= 38, point <= 38, digits.count - point <= 38 else { return nil }
        if point <= 0 {
            digits.insert(contentsOf: repeatElement(48, count: 1 - point), at: 0)
            point = 1
        }
        if digits.count < point {
            digits.append(contentsOf: repeatElement(48, count: point - digits.count))
        }
        if digits.count > point { digits.insert(46, at: point) }
        return (negative ? "-" : "") + String(decoding: digits, as: UTF8.self)
    }
}

extension PropertyValue: Hashable {
    /// Whether both are the same value, bit by bit.
    public static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.boolean(let left), .boolean(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.double(let left), .double(let right)):
            canonicalBits(left) == canonicalBits(right)
        case (.decimal(let left), .decimal(let right)), (.string(let left), .string(let right)),
            (.uri(let left), .uri(let right)):
            sameBytes(left, right)
        case (.date(let left), .date(let right)): left == right
        case (.binary(let left), .binary(let right)): left == right
        case (.uuid(let left1, let left2), .uuid(let right1, let right2)):
            left1 == right1 && left2 == right2
        case (.reference(let left), .reference(let right)): left == right
        default: false
        }
    }

    private static func sameBytes(_ left: String, _ right: String) -> Bool {
        guard left.utf8.count == right.utf8.count else { return false }
        // Values of a batch are mostly one and the same text.
        let isSame =
            left.utf8.withContiguousStorageIfAvailable { left in
                right.utf8.withContiguousStorageIfAvailable {
                    left.baseAddress == $0.baseAddress
                }
            } ?? false
        return isSame == true || left.utf8.elementsEqual(right.utf8)
    }

    /// Hashes so that equal values hash equally; for dictionaries within one process only.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .boolean(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .double(let value): hasher.combine(Self.canonicalBits(value))
        case .decimal(let text), .string(let text), .uri(let text):
            for byte in text.utf8 { hasher.combine(byte) }
        case .date(let value): hasher.combine(value)
        case .binary(let bytes): hasher.combine(bytes)
        case .uuid(let first, let last):
            hasher.combine(first)
            hasher.combine(last)
        case .reference(let row): hasher.combine(row)
        }
    }
}
