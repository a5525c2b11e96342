public import Foundation
public import Merge

/// A Swift type that an attribute's value can be read as and written from.
///
/// ``ManagedObject/value(forKey:as:)`` and its subscripts take these, so that application code
/// says `person["name"] = "Ada"` and never spells out a ``Merge/PropertyValue``.
public protocol PropertyValueConvertible {
    /// Reads a value; nil where it is of another type or out of this type's bounds.
    init?(propertyValue: PropertyValue)
    /// The value as the store keeps it.
    var propertyValue: PropertyValue { get }
}

extension PropertyValue: PropertyValueConvertible {
    /// Any value but null is itself.
    public init?(propertyValue: PropertyValue) {
        if propertyValue.isNull { return nil }
        self = propertyValue
    }

    /// Itself.
    public var propertyValue: PropertyValue { self }
}

extension String: PropertyValueConvertible {
    /// Reads text.
    public init?(propertyValue: PropertyValue) {
        guard case .string(let text) = propertyValue else { return nil }
        self = text
    }

    /// Text.
    public var propertyValue: PropertyValue { .string(self) }
}

extension Bool: PropertyValueConvertible {
    /// Reads a truth value.
    public init?(propertyValue: PropertyValue) {
        guard case .boolean(let flag) = propertyValue else { return nil }
        self = flag
    }

    /// A truth value.
    public var propertyValue: PropertyValue { .boolean(self) }
}

extension PropertyValueConvertible where Self: FixedWidthInteger {
    /// Reads an integer that fits.
    public init?(propertyValue: PropertyValue) {
        guard case .integer(let number) = propertyValue else { return nil }
        self.init(exactly: number)
    }

    /// An integer.
    public var propertyValue: PropertyValue { .integer(Int64(self)) }
}

extension Int: PropertyValueConvertible {}
extension Int64: PropertyValueConvertible {}
extension Int32: PropertyValueConvertible {}
extension Int16: PropertyValueConvertible {}

extension Double: PropertyValueConvertible {
    /// Reads a float or double.
    public init?(propertyValue: PropertyValue) {
        guard case .double(let number) = propertyValue else { return nil }
        self = number
    }

    /// A double.
    public var propertyValue: PropertyValue { .double(self) }
}

extension Float: PropertyValueConvertible {
    /// Reads a float.
    public init?(propertyValue: PropertyValue) {
        guard case .double(let number) = propertyValue else { return nil }
        self = Float(number)
    }

    /// A float.
    public var propertyValue: PropertyValue { .double(Double(self)) }
}

extension Date: PropertyValueConvertible {
    /// Reads a date.
    public init?(propertyValue: PropertyValue) {
        guard case .date(let milliseconds) = propertyValue else { return nil }
        self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    /// The date to the nearest millisecond; a date that 64 bits of milliseconds do not reach
    /// becomes the furthest they do.
    public var propertyValue: PropertyValue {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded()
        if milliseconds.isNaN { return .null }
        if milliseconds >= 9.2e18 { return .date(.max) }
        if milliseconds <= -9.2e18 { return .date(.min) }
        return .date(Int64(milliseconds))
    }
}

extension Data: PropertyValueConvertible {
    /// Reads bytes.
    public init?(propertyValue: PropertyValue) {
        guard case .binary(let bytes) = propertyValue else { return nil }
        self.init(bytes)
    }

    /// Bytes.
    public var propertyValue: PropertyValue { .binary(Array(self)) }
}

extension UUID: PropertyValueConvertible {
    /// Reads a UUID.
    public init?(propertyValue: PropertyValue) {
        guard case .uuid(let high, let low) = propertyValue else { return nil }
        let bytes = [high, low].flatMap { lane in
            (0..<8).map { UInt8(truncatingIfNeeded: lane >> UInt64(56 - $0 * 8)) }
        }
        self = bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }

    /// The UUID's first and last eight bytes, big-endian.
    public var propertyValue: PropertyValue {
        let lanes = withUnsafeBytes(of: uuid) { bytes in
            bytes.reduce(into: (UInt64(0), UInt64(0))) { lanes, byte in
                lanes.0 = lanes.0 << 8 | lanes.1 >> 56
                lanes.1 = lanes.1 << 8 | UInt64(byte)
            }
        }
        return .uuid(lanes.0, lanes.1)
    }
}

extension URL: PropertyValueConvertible {
    /// Reads a URI; nil where Foundation takes the text for none.
    public init?(propertyValue: PropertyValue) {
        guard case .uri(let text) = propertyValue else { return nil }
        self.init(string: text)
    }

    /// The absolute URI.
    public var propertyValue: PropertyValue { .uri(absoluteString) }
}

extension Decimal: PropertyValueConvertible {
    /// Reads a decimal number.
    public init?(propertyValue: PropertyValue) {
        guard case .decimal(let text) = propertyValue else { return nil }
        self.init(string: text, locale: Locale(identifier: "en_US_POSIX"))
    }

    /// The number in canonical text; null for what is no number.
    public var propertyValue: PropertyValue {
        var number = self
        let text = NSDecimalString(&number, Locale(identifier: "en_US_POSIX"))
        return PropertyValue.canonicalDecimal(text).map { .decimal($0) } ?? .null
    }
}
