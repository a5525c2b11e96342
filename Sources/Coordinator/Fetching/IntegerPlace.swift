import Merge

/// Where a decimal number stands among the integers, exactly: a double has no room for that beyond 2^53.
enum IntegerPlace: Hashable {
    /// It is this integer.
    case at(Int64)
    /// It is above this integer and below the next.
    case above(Int64)
    /// It is less, or greater, than every integer of 64 bits.
    case outside(isNegative: Bool)

    /// Nil where the text is no numeral.
    init?(of numeral: String) {
        guard let text = PropertyValue.canonicalDecimal(numeral) else {
            // Too many digits for a decimal: the first of them say all that matters of an integer, but
            // what has an exponent is then far outside, or next to zero.
            let parts = numeral.split(separator: ".", omittingEmptySubsequences: false)
            let isPlain =
                parts.count <= 2 && parts.allSatisfy { $0.allSatisfy { $0 != "e" && $0 != "E" } }
            guard isPlain, let whole = PropertyValue.canonicalDecimal(String(parts[0]) + ".0")
            else {
                guard let number = Double(numeral) else { return nil }
                let isSmall = abs(number) < 1
                self = isSmall ? .above(number < 0 ? -1 : 0) : .outside(isNegative: number < 0)
                return
            }
            let hasFraction = parts.count == 2 && parts[1].contains { $0 != "0" }
            self.init(whole: whole, isNegative: numeral.first == "-", hasFraction: hasFraction)
            return
        }
        let parts = text.split(separator: ".")
        self.init(
            whole: String(parts[0]), isNegative: text.first == "-", hasFraction: parts.count == 2)
    }

    private init(whole: String, isNegative: Bool, hasFraction: Bool) {
        guard let integer = Int64(whole) else {
            self = .outside(isNegative: isNegative)
            return
        }
        guard hasFraction else {
            self = .at(integer)
            return
        }
        let (below, overflow) = integer.subtractingReportingOverflow(isNegative ? 1 : 0)
        self = overflow ? .outside(isNegative: true) : .above(below)
    }

    /// A value that compares with integers as the number does; of one between two integers, the upper
    /// bound of those that are less.
    var value: PropertyValue {
        switch self {
        case .at(let integer), .above(let integer): .integer(integer)
        case .outside(let isNegative):
            .double(isNegative ? -Double.greatestFiniteMagnitude : Double.greatestFiniteMagnitude)
        }
    }
}

extension IntegerPlace {
    /// The place of a constant between two integers; nil where it is none of an integer's, or is one.
    static func between(_ constant: PredicateValue, _ type: AttributeType?) -> Int64? {
        guard let type, [.integer16, .integer32, .integer64].contains(type),
            case .value(.decimal(let text)) = constant,
            case .above(let integer) = IntegerPlace(of: text)
        else { return nil }
        return integer
    }

    /// The test of an integer against a number between two; no integer is equal to it.
    static func test(
        _ comparison: PredicateComparison.Operator, above integer: Int64
    ) -> ValueTest {
        switch comparison {
        case .equal: never
        case .notEqual: .compare(.greaterOrEqual, .integer(.min), [])
        case .less, .lessOrEqual: .compare(.lessOrEqual, .integer(integer), [])
        default: .compare(.greater, .integer(integer), [])
        }
    }

    /// Holds of no integer, and is unknown of null.
    static var never: ValueTest { .compare(.less, .integer(.min), []) }

    /// The least integer above a number that is above this one.
    static func next(_ integer: Int64) -> PropertyValue {
        integer == .max ? IntegerPlace.outside(isNegative: false).value : .integer(integer + 1)
    }
}
