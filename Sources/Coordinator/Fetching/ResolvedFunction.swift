import Foundation
import Merge

/// A function of values of known types. Pure, and null of a null; SQL and memory both call this.
enum ResolvedFunction: Hashable, Sendable {
    /// The operations on numbers.
    enum Arithmetic: Int64, Hashable, Sendable {
        case add = 1
        case subtract, multiply, divide, modulus, raise
        case negate, absolute, ceiling, floor, truncate, squareRoot

        var isBinary: Bool { rawValue < Self.negate.rawValue }
    }

    /// The operations on dates.
    enum Moment: Int64, Hashable, Sendable {
        /// A date some seconds later.
        case later = 1
        /// A date some seconds earlier.
        case earlier
        /// The seconds from the second date to the first.
        case between
    }

    /// The operations on texts.
    enum Text: Int64, Hashable, Sendable {
        case lowercase = 1
        case uppercase, canonical, length
    }

    /// The type is integer64, double or decimal.
    case arithmetic(Arithmetic, AttributeType)
    case moment(Moment)
    /// The beginning of the period of a date, at an offset from UTC in minutes.
    case period(CalendarPeriod)
    case text(Text)
    case conversion(AttributeType, AttributeType)

    /// The function that casts; nil where a type never becomes the other.
    static func cast(from: AttributeType, to: AttributeType) -> ResolvedFunction? {
        let numbers: Set<AttributeType> = [.integer64, .double, .decimal]
        let (source, target) = (from.widest, to)
        let isKnown =
            switch (source, target.widest) {
            case (_, .string): source != .binary
            case (.string, _): true
            case (let source, let target) where source == target: true
            case (let source, let target) where numbers.contains(source):
                numbers.contains(target) || target == .date
                    || (target == .boolean && source == .integer64)
            case (.boolean, .integer64): true
            case (.date, .double): true
            default: false
            }
        return isKnown ? .conversion(source, target) : nil
    }

    // MARK: Number

    private static let types = AttributeType.allCases

    /// The number that SQL calls it by.
    var code: Int64 {
        switch self {
        case .arithmetic(let operation, let type):
            return operation.rawValue << 8 | Self.place(type)
        case .moment(let operation): return 1 << 16 | operation.rawValue
        case .text(let operation): return 2 << 16 | operation.rawValue
        case .conversion(let from, let to):
            return 3 << 16 | Self.place(from) << 8 | Self.place(to)
        case .period(let period): return 4 << 16 | period.rawValue
        }
    }

    init?(code: Int64) {
        func type(_ place: Int64) -> AttributeType? {
            Self.types.indices.contains(Int(place)) ? Self.types[Int(place)] : nil
        }
        switch code >> 16 {
        case 0:
            guard let operation = Arithmetic(rawValue: code >> 8), let type = type(code & 0xFF)
            else { return nil }
            self = .arithmetic(operation, type)
        case 1:
            guard let operation = Moment(rawValue: code & 0xFF) else { return nil }
            self = .moment(operation)
        case 2:
            guard let operation = Text(rawValue: code & 0xFF) else { return nil }
            self = .text(operation)
        case 4:
            guard let period = CalendarPeriod(rawValue: code & 0xFF) else { return nil }
            self = .period(period)
        default:
            guard let from = type(code >> 8 & 0xFF), let to = type(code & 0xFF) else { return nil }
            self = .conversion(from, to)
        }
    }

    private static func place(_ type: AttributeType) -> Int64 {
        Int64(types.firstIndex(of: type) ?? 0)
    }

    // MARK: Types

    /// The types of what it takes.
    var operands: [AttributeType] {
        switch self {
        case .arithmetic(let operation, let type):
            operation.isBinary ? [type, type] : [type]
        case .moment(.between): [.date, .date]
        case .moment: [.date, .double]
        case .period: [.date, .integer64]
        case .text: [.string]
        case .conversion(let from, _): [from]
        }
    }

    /// The type of what it gives.
    var result: AttributeType {
        switch self {
        case .arithmetic(_, let type): type
        case .moment(.between): .double
        case .moment, .period: .date
        case .text(.length): .integer64
        case .text: .string
        case .conversion(_, let to): to
        }
    }

    // MARK: Values

    /// The value. Integers that 64 bits do not hold, dates beyond them, and divisions by zero give
    /// null.
    func apply(_ values: [PropertyValue]) -> PropertyValue {
        guard values.count == operands.count, !values.contains(where: \.isNull) else {
            return .null
        }
        switch self {
        case .arithmetic(let operation, .integer64):
            let numbers = values.compactMap {
                if case .integer(let number) = $0 { number } else { nil }
            }
            guard numbers.count == values.count else { return .null }
            return Self.integer(operation, numbers).map { .integer($0) } ?? .null
        case .arithmetic(let operation, .decimal):
            let texts = values.compactMap(Self.decimal)
            guard texts.count == values.count else { return .null }
            return Self.decimal(operation, texts).map { .decimal($0) } ?? .null
        case .arithmetic(let operation, _):
            let numbers = values.compactMap(Self.double)
            guard numbers.count == values.count else { return .null }
            return Self.double(operation, numbers).map { .double($0) } ?? .null
        case .moment(let operation): return Self.moment(operation, values)
        case .period(let period):
            guard case .date(let date) = values[0], case .integer(let offset) = values[1] else {
                return .null
            }
            return period.start(of: date, offset: offset).map { .date($0) } ?? .null
        case .text(let operation):
            guard let text = Self.text(values[0]) else { return .null }
            switch operation {
            case .lowercase: return .string(text.lowercased())
            case .uppercase: return .string(text.uppercased())
            case .canonical:
                return .string(
                    TextFolding.fold(text, [.caseInsensitive, .diacriticInsensitive]))
            case .length: return .integer(Int64(text.unicodeScalars.count))
            }
        case .conversion(let from, let to): return Self.convert(values[0], from, to)
        }
    }

    private static func integer(_ operation: Arithmetic, _ numbers: [Int64]) -> Int64? {
        let left = numbers[0]
        let right = numbers.count > 1 ? numbers[1] : 0
        let (value, overflow) =
            switch operation {
            case .add: left.addingReportingOverflow(right)
            case .subtract: left.subtractingReportingOverflow(right)
            case .multiply: left.multipliedReportingOverflow(by: right)
            case .divide: left.dividedReportingOverflow(by: right)
            // The least integer by -1 leaves 0, which the processor reports as an overflow.
            case .modulus:
                right == -1 ? (0, false) : left.remainderReportingOverflow(dividingBy: right)
            case .negate: Int64(0).subtractingReportingOverflow(left)
            case .absolute:
                left < 0 ? Int64(0).subtractingReportingOverflow(left) : (left, false)
            case .raise, .ceiling, .floor, .truncate, .squareRoot: (0, true)
            }
        return overflow ? nil : value
    }

    private static func double(_ operation: Arithmetic, _ numbers: [Double]) -> Double? {
        let left = numbers[0]
        let right = numbers.count > 1 ? numbers[1] : 0
        switch operation {
        case .add: return left + right
        case .subtract: return left - right
        case .multiply: return left * right
        case .divide: return right == 0 ? nil : left / right
        case .modulus: return right == 0 ? nil : left.truncatingRemainder(dividingBy: right)
        case .raise: return pow(left, right)
        case .negate: return -left
        case .absolute: return abs(left)
        case .ceiling: return left.rounded(.up)
        case .floor: return left.rounded(.down)
        case .truncate: return left.rounded(.towardZero)
        case .squareRoot: return left < 0 ? nil : left.squareRoot()
        }
    }

    private static func decimal(_ operation: Arithmetic, _ texts: [String]) -> String? {
        switch operation {
        case .add: DecimalArithmetic.add(texts[0], texts[1])
        case .subtract: DecimalArithmetic.add(texts[0], DecimalArithmetic.negate(texts[1]))
        case .multiply: DecimalArithmetic.multiply(texts[0], texts[1])
        case .negate: DecimalArithmetic.negate(texts[0])
        case .absolute: DecimalArithmetic.absolute(texts[0])
        case .truncate: DecimalArithmetic.truncate(texts[0])
        case .floor: DecimalArithmetic.floor(texts[0])
        case .ceiling:
            DecimalArithmetic.floor(DecimalArithmetic.negate(texts[0]))
                .map(DecimalArithmetic.negate)
        case .divide, .modulus, .raise, .squareRoot: nil
        }
    }

    private static func moment(_ operation: Moment, _ values: [PropertyValue]) -> PropertyValue {
        guard case .date(let date) = values[0] else { return .null }
        if operation == .between {
            guard case .date(let other) = values[1] else { return .null }
            let (milliseconds, overflow) = date.subtractingReportingOverflow(other)
            return overflow ? .null : .double(Double(milliseconds) / 1_000)
        }
        guard let seconds = double(values[1]),
            let milliseconds = Int64(exactly: (seconds * 1_000).rounded())
        else { return .null }
        let (moved, overflow) =
            operation == .later
            ? date.addingReportingOverflow(milliseconds)
            : date.subtractingReportingOverflow(milliseconds)
        return overflow ? .null : .date(moved)
    }

    // MARK: Conversions

    private static func double(_ value: PropertyValue) -> Double? {
        switch value {
        case .double(let number): number
        case .integer(let number): Double(number)
        default: nil
        }
    }

    private static func decimal(_ value: PropertyValue) -> String? {
        switch value {
        case .decimal(let text): text
        case .integer(let number): String(number)
        default: nil
        }
    }

    static func text(_ value: PropertyValue) -> String? {
        switch value {
        case .string(let text), .uri(let text): text
        default: nil
        }
    }

    /// The seconds from 1970 to 2001, when Core Data's count of them begins.
    private static let epoch = 978_307_200.0

    private static func convert(
        _ value: PropertyValue, _ from: AttributeType, _ to: AttributeType
    ) -> PropertyValue {
        switch to {
        case .string: return .string(written(value, from))
        case .integer16, .integer32, .integer64:
            let number: Int64? =
                switch value {
                case .integer(let number): number
                case .boolean(let truth): truth ? 1 : 0
                case .double(let number): Int64(exactly: number.rounded(.towardZero))
                case .decimal(let text): Int64(DecimalArithmetic.truncate(text))
                case .string(let text): Int64(text)
                default: nil
                }
            guard let number else { return .null }
            let bits: Int64 = to == .integer16 ? 15 : to == .integer32 ? 31 : 63
            return bits == 63 || (number >> bits == 0 || number >> bits == -1)
                ? .integer(number) : .null
        case .double, .float:
            let number: Double? =
                switch value {
                case .decimal(let text): Double(text)
                case .string(let text):
                    PropertyValue.canonicalDecimal(text) == nil ? special(text) : Double(text)
                case .date(let milliseconds): Double(milliseconds) / 1_000 - epoch
                default: double(value)
                }
            guard let number else { return .null }
            return .double(to == .float ? Double(Float(number)) : number)
        case .decimal:
            switch value {
            case .double(let number):
                return PropertyValue.canonicalDecimal(number.description).map { .decimal($0) }
                    ?? .null
            case .string(let text):
                return PropertyValue.canonicalDecimal(text).map { .decimal($0) } ?? .null
            default: return decimal(value).map { .decimal($0) } ?? .null
            }
        case .date:
            switch value {
            case .date: return value
            case .string(let text): return PropertyValue(text: text, type: .date) ?? .null
            case .decimal(let text): return Double(text).map(date) ?? .null
            default: return double(value).map(date) ?? .null
            }
        case .boolean:
            switch value {
            case .boolean: return value
            case .integer(let number): return .boolean(number != 0)
            case .string("true"): return .boolean(true)
            case .string("false"): return .boolean(false)
            default: return .null
            }
        case .uri: return text(value).map { .uri($0) } ?? .null
        case .uuid, .binary:
            if case .string(let text) = value {
                return PropertyValue(text: text, type: to) ?? .null
            }
            return value
        }
    }

    private static func special(_ text: String) -> Double? {
        if case .double(let number) = PropertyValue(text: text, type: .double) {
            number
        } else {
            nil
        }
    }

    private static func date(_ seconds: Double) -> PropertyValue {
        Int64(exactly: ((seconds + epoch) * 1_000).rounded()).map { .date($0) } ?? .null
    }

    /// The value as the client interface writes it.
    private static func written(_ value: PropertyValue, _ from: AttributeType) -> String {
        switch value {
        case .boolean(let truth): return truth ? "true" : "false"
        case .integer(let number):
            return from == .double ? Double(number).description : String(number)
        case .double(let number):
            if !number.isFinite { return JSONWriter.nonFinite(number) }
            return number == 0 ? "0.0" : number.description
        case .decimal(let text), .string(let text), .uri(let text): return text
        case .date(let milliseconds): return ValueText.date(milliseconds)
        case .uuid(let first, let last): return ValueText.uuid(first, last)
        default: return ""
        }
    }
}

extension AttributeType {
    /// The type that its values compute as.
    var widest: AttributeType { isInteger ? .integer64 : self == .float ? .double : self }
}
