public import Merge

// Literals keep the examples legible.
extension PropertyValue: ExpressibleByStringInterpolation {
    /// A text.
    public init(stringLiteral text: String) { self = .string(text) }
}

extension PropertyValue: ExpressibleByIntegerLiteral {
    /// An integer.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}
