package import Merge

/// The order of values, the same in memory as in SQLite with the store's columns.
///
/// Null comes first. Numbers compare by value, integers and doubles exactly; NaN equals itself
/// and comes after every number. Texts compare by UTF-8 bytes, decimals by value, UUIDs and bytes
/// as unsigned bytes. Values of different kinds have an order too, but no meaning in it.
package enum ValueOrder {
    /// How two values lie to each other.
    package enum Result: Sendable {
        /// The left is less.
        case before
        /// They are equal.
        case same
        /// The left is greater.
        case after

        /// The order seen from the other end.
        package var reversed: Result {
            switch self {
            case .before: .after
            case .same: .same
            case .after: .before
            }
        }
    }

    /// Compares two values.
    package static func compare(_ left: PropertyValue, _ right: PropertyValue) -> Result {
        switch (left, right) {
        case (.integer(let left), .integer(let right)), (.date(let left), .date(let right)):
            order(left, right)
        case (.integer(let left), .double(let right)): compare(left, right)
        case (.double(let left), .integer(let right)): compare(right, left).reversed
        case (.double(let left), .double(let right)): compare(left, right)
        case (.boolean(let left), .boolean(let right)): order(left ? 1 : 0, right ? 1 : 0)
        case (.string(let left), .string(let right)), (.uri(let left), .uri(let right)):
            bytes(left.utf8, right.utf8)
        case (.decimal(let left), .decimal(let right)): compare(decimal: left, right)
        case (.binary(let left), .binary(let right)): bytes(left, right)
        case (.uuid(let left1, let left2), .uuid(let right1, let right2)):
            left1 == right1 ? order(left2, right2) : order(left1, right1)
        case (.reference(let left), .reference(let right)): order(left, right)
        default: order(rank(left), rank(right))
        }
    }

    private static func order<Value: Comparable>(_ left: Value, _ right: Value) -> Result {
        left < right ? .before : left == right ? .same : .after
    }

    private static func bytes(
        _ left: some Sequence<UInt8>, _ right: some Sequence<UInt8>
    ) -> Result {
        var others = right.makeIterator()
        for byte in left {
            guard let other = others.next() else { return .after }
            if byte != other { return byte < other ? .before : .after }
        }
        return others.next() == nil ? .same : .before
    }

    private static func compare(_ left: Double, _ right: Double) -> Result {
        switch (left.isNaN, right.isNaN) {
        case (false, false): order(left, right)
        case (true, true): .same
        case (true, false): .after
        case (false, true): .before
        }
    }

    /// Compares without rounding the integer.
    private static func compare(_ left: Int64, _ right: Double) -> Result {
        if right.isNaN { return .before }
        if right >= 0x1p63 { return .before }
        if right < -0x1p63 { return .after }
        let whole = right.rounded(.down)
        let result = order(left, Int64(whole))
        return result == .same && whole < right ? .before : result
    }

    /// Compares decimals in their canonical texts by value.
    static func compare(decimal left: String, _ right: String) -> Result {
        let leftIsNegative = left.utf8.first == UInt8(ascii: "-")
        let rightIsNegative = right.utf8.first == UInt8(ascii: "-")
        guard leftIsNegative == rightIsNegative else { return leftIsNegative ? .before : .after }
        let result = magnitude(
            leftIsNegative ? left.dropFirst() : left[...],
            rightIsNegative ? right.dropFirst() : right[...])
        return leftIsNegative ? result.reversed : result
    }

    private static func magnitude(_ left: Substring, _ right: Substring) -> Result {
        let point = UInt8(ascii: ".")
        let leftWhole = left.utf8.prefix { $0 != point }
        let rightWhole = right.utf8.prefix { $0 != point }
        let lengths = order(leftWhole.count, rightWhole.count)
        // With whole parts of one length the bytes decide: the point sorts below the digits, so
        // the shorter of two fractions that begin alike comes first.
        return lengths == .same ? bytes(left.utf8, right.utf8) : lengths
    }

    private static func rank(_ value: PropertyValue) -> Int {
        switch value {
        case .null: 0
        case .boolean: 1
        case .integer, .double: 2
        case .decimal: 3
        case .string: 4
        case .date: 5
        case .binary: 6
        case .uuid: 7
        case .uri: 8
        case .reference: 9
        }
    }
}
