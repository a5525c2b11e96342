import Merge

/// What is made of the values that a to-many leads to. SQL and memory both call this.
enum CollectionAggregate: String, Hashable, Sendable {
    case count
    /// How many values that differ there are.
    case distinctCount
    case sum
    case average
    case minimum
    case maximum

    init?(_ name: String) {
        switch name {
        case "@sum": self = .sum
        case "@avg": self = .average
        case "@min": self = .minimum
        case "@max": self = .maximum
        case "@distinctUnionOfObjects": self = .distinctCount
        default: return nil
        }
    }

    /// The type of the result, of values of a type; nil where there is none.
    func result(of type: AttributeType?) -> AttributeType? {
        switch self {
        case .count, .distinctCount: return .integer64
        case .minimum, .maximum: return type == .boolean ? nil : type
        case .sum, .average:
            guard let type else { return nil }
            if type == .decimal { return .decimal }
            guard type.isNumber else { return nil }
            return self == .sum && type.isInteger ? .integer64 : .double
        }
    }

    /// The result; nulls do not count.
    func apply(_ values: [PropertyValue], of type: AttributeType?) -> PropertyValue {
        let values = values.filter { !$0.isNull }
        switch self {
        case .count: return .integer(Int64(values.count))
        case .distinctCount:
            let sorted = values.sorted { ValueOrder.compare($0, $1) == .before }
            let pairs = zip(sorted, sorted.dropFirst())
            let steps = pairs.count { ValueOrder.compare($0, $1) != .same }
            return .integer(Int64(sorted.isEmpty ? 0 : steps + 1))
        case .minimum:
            return values.min { ValueOrder.compare($0, $1) == .before } ?? .null
        case .maximum:
            return values.max { ValueOrder.compare($0, $1) == .before } ?? .null
        case .sum, .average: return total(values, of: type)
        }
    }

    private func total(_ values: [PropertyValue], of type: AttributeType?) -> PropertyValue {
        if type == .decimal {
            var sum = DecimalSum()
            for case .decimal(let text) in values { sum.add(text) }
            return (self == .sum ? sum.total : sum.average).map { .decimal($0) } ?? .null
        }
        if type?.isInteger == true {
            var (high, low): (Int64, Int64) = (0, 0)
            for case .integer(let number) in values {
                high += number >> 32
                low += number & 0xFFFF_FFFF
            }
            return self == .sum
                ? Self.sum(high: high, low: low).map { .integer($0) } ?? .null
                : Self.average(high: high, low: low, count: Int64(values.count))
                    .map { .double($0) } ?? .null
        }
        var sum = DoubleSum()
        for value in values {
            switch value {
            case .double(let number): sum.add(number)
            case .integer(let number): sum.add(Double(number))
            default: break
            }
        }
        return self == .sum ? .double(sum.total) : sum.average.map { .double($0) } ?? .null
    }

    /// The sum of integers by the sums of their halves; nil where 64 bits do not hold it.
    static func sum(high: Int64, low: Int64) -> Int64? {
        guard let upper = Int32(exactly: high + low >> 32) else { return nil }
        return Int64(upper) << 32 | low & 0xFFFF_FFFF
    }

    /// The mean of integers by the sums of their halves; nil of none.
    static func average(high: Int64, low: Int64, count: Int64) -> Double? {
        count == 0 ? nil : Double(Int128(high) << 32 + Int128(low)) / Double(count)
    }
}

extension AttributeType {
    /// Whether it is one of the integers.
    var isInteger: Bool { self == .integer16 || self == .integer32 || self == .integer64 }

    /// Whether it is a number, and no decimal.
    var isNumber: Bool { isInteger || self == .double || self == .float }
}
