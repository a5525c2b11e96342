import Merge

/// What derived attributes are made of texts by.
enum TextDerivation: Hashable, Sendable {
    case function(ResolvedFunction.Text)
    /// The bytes that are in the order of the texts.
    case collationKey(Collation)

    /// The value that is made of a text; null of null.
    func value(of text: PropertyValue) -> PropertyValue {
        switch self {
        case .function(let function): return ResolvedFunction.text(function).apply([text])
        case .collationKey(let collation):
            return ResolvedFunction.text(text).map { .binary(collation.key(of: $0)) } ?? .null
        }
    }
}
