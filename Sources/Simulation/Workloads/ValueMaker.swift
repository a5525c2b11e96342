internal import Coordinator
internal import Merge
internal import Replication

/// Values that clients write: of the attribute's type and within its bounds, mostly different from
/// all others, and sometimes the same on purpose.
struct ValueMaker {
    /// The node whose client writes.
    let node: Int64
    /// The client's running number.
    let counter: Int64

    /// A value; null where the property is optional and chance, or a bound that cannot be met,
    /// wants it so.
    func value(
        of property: ManagedObjectModel.Property, _ generator: inout SeededGenerator
    ) -> PropertyValue {
        guard case .attribute(let type) = property.content else { return .null }
        if property.isOptional, generator.chance(in: 12) { return .null }
        let isCommon = generator.chance(in: 6)
        let number =
            isCommon ? Int64(generator.number(below: 3)) : node &* 1_000_000 &+ counter
        switch type {
        case .string: return string(property, isCommon, number)
        case .boolean: return .boolean(generator.chance(in: 2))
        case .integer16: return integer(property, number, Int64(Int16.min)...Int64(Int16.max))
        case .integer32: return integer(property, number, Int64(Int32.min)...Int64(Int32.max))
        case .integer64: return integer(property, number, Int64.min...Int64.max)
        case .date:
            return .date(within(property, 1_700_000_000_000 &+ number, Int64.min...Int64.max))
        case .double: return double(property, number, &generator) { $0 }
        case .float: return double(property, number % 4_000_000, &generator) { Double(Float($0)) }
        case .decimal: return decimal(property, number)
        case .binary: return binary(property, number)
        case .uuid: return .uuid(UInt64(bitPattern: number), 0x8000_0000_0000_0001)
        case .uri: return .uri("https://example.org/\(number)")
        }
    }

    // MARK: Numbers

    private func integer(
        _ property: ManagedObjectModel.Property, _ number: Int64, _ range: ClosedRange<Int64>
    ) -> PropertyValue {
        .integer(within(property, number, range))
    }

    /// The number itself where it is within bounds, else one that is.
    private func within(
        _ property: ManagedObjectModel.Property, _ number: Int64, _ range: ClosedRange<Int64>
    ) -> Int64 {
        let least = bound(property.validation.minimum).map { Int64(clamping: $0.rounded(.up)) }
        let greatest = bound(property.validation.maximum).map { Int64(clamping: $0.rounded(.down)) }
        let lower = max(range.lowerBound, least ?? range.lowerBound)
        let upper = min(range.upperBound, greatest ?? range.upperBound)
        if lower > upper || (lower...upper).contains(number) { return number }
        // A span that overflows is far larger than any running number.
        let (span, overflows) = upper.subtractingReportingOverflow(lower)
        if overflows || span == .max { return lower &+ abs(number % 1_000_000) }
        return lower + abs(number % (span + 1))
    }

    private func bound(_ value: PropertyValue?) -> Double? {
        switch value {
        case .integer(let number), .date(let number): Double(number)
        case .double(let number): number
        case .decimal(let text): Double(text)
        default: nil
        }
    }

    private func double(
        _ property: ManagedObjectModel.Property, _ number: Int64,
        _ generator: inout SeededGenerator, _ rounded: (Double) -> Double
    ) -> PropertyValue {
        let least = bound(property.validation.minimum)
        let greatest = bound(property.validation.maximum)
        guard least != nil || greatest != nil else {
            // What is compared by bits must stay the same bits on its way.
            let odd = [0.0, -0.0, .infinity, -.infinity, .nan, .leastNonzeroMagnitude]
            if generator.chance(in: 12) {
                return .double(rounded(generator.choice(odd) ?? 0))
            }
            return .double(rounded(Double(number) / 4))
        }
        let lower = least ?? (greatest ?? 0) - 1_000
        let upper = greatest ?? lower + 1_000
        let value = rounded(lower + (upper - lower) * Double(abs(number % 64)) / 64)
        return .double(lower <= value && value <= upper ? value : lower)
    }

    private func decimal(
        _ property: ManagedObjectModel.Property, _ number: Int64
    ) -> PropertyValue {
        let isFree = property.validation.minimum == nil && property.validation.maximum == nil
        let whole = within(property, number, -1_000_000_000...1_000_000_000)
        let text = isFree ? "\(whole).25" : "\(whole)"
        return PropertyValue.canonicalDecimal(text).map { .decimal($0) } ?? .null
    }

    // MARK: Texts and bytes

    private func string(
        _ property: ManagedObjectModel.Property, _ isCommon: Bool, _ number: Int64
    ) -> PropertyValue {
        // A text for any pattern cannot be made up here; the default is known to be one.
        if property.validation.pattern != nil {
            return property.isOptional ? .null : property.defaultValue
        }
        var text = isCommon ? "same\(number)" : "n\(node)-\(counter)"
        let (least, greatest) = lengths(property)
        while text.count < least { text += "." }
        // The end is what distinguishes texts.
        if text.count > greatest { text = String(text.suffix(greatest)) }
        return .string(text)
    }

    private func binary(
        _ property: ManagedObjectModel.Property, _ number: Int64
    ) -> PropertyValue {
        var bytes = (0..<8).map { UInt8(truncatingIfNeeded: number >> Int64($0 * 8)) }
        let (least, greatest) = lengths(property)
        while bytes.count < least { bytes.append(0) }
        if bytes.count > greatest { bytes = Array(bytes.prefix(greatest)) }
        return .binary(bytes)
    }

    /// The least and the greatest length asked for; a text is never made longer than 64 KiB.
    private func lengths(_ property: ManagedObjectModel.Property) -> (Int, Int) {
        let least = bound(property.validation.minimum).map { Int(clamping: Int64(clamping: $0)) }
        let greatest = bound(property.validation.maximum).map { Int(clamping: Int64(clamping: $0)) }
        return (min(max(least ?? 0, 0), 1 << 16), max(greatest ?? .max, 0))
    }
}

extension Int64 {
    /// The nearest integer; 0 for what is no number.
    fileprivate init(clamping number: Double) {
        if number.isNaN {
            self = 0
        } else if number >= 9.2e18 {
            self = .max
        } else {
            self = number <= -9.2e18 ? .min : Int64(number)
        }
    }
}
