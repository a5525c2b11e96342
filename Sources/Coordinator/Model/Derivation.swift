/// How a derived attribute follows from other values, as the expression of NSDerivedAttributeDescription.
///
/// The store computes it wherever a row changes: by a save, by a merge of another node's, by a
/// migration. Nobody assigns it.
public enum Derivation: Hashable, Sendable {
    /// `canonical:(key)`: a text attribute without case and diacritics.
    case canonical(String)
    /// `lowercase:(key)`: a text attribute in lower case.
    case lowercase(String)
    /// `uppercase:(key)`: a text attribute in upper case.
    case uppercase(String)
    /// `localizedStandard:(key)` or `localizedStandard:(key, locale)`: bytes that are in the order of a text
    /// attribute by ``SortDescriptor/Comparison/localizedStandard(locale:)``. A fetch that sorts the text so
    /// sorts by them, and an index over them serves it.
    case localizedStandard(String, locale: String)
    /// `relationship.@count`: how many objects a to-many leads to.
    case count(relationship: String)
    /// `relationship.attribute.@sum`: the sum of a number of the objects that a to-many leads to.
    /// Nulls do not count; of no objects it is 0, and a sum that its type cannot hold is null.
    case sum(relationship: String, attribute: String)
    /// `now()`: when the newest of the values that the object shows was saved, by its writer's clock.
    case now

    /// Reads an expression; `relationship.@sum.attribute` is another form of a sum.
    ///
    /// - Returns: nil for any other.
    public init?(_ expression: String) {
        if let (key, locale) = LocalizedStandard.parse(expression) {
            guard Self.isName(key) else { return nil }
            self = .localizedStandard(key, locale: locale)
            return
        }
        let text = expression.filter { $0 != " " }
        if text == "now()" {
            self = .now
            return
        }
        for (name, make) in Self.functions {
            for (start, end) in [("\(name):(", ")"), ("\(name)(", ")")]
            where text.hasPrefix(start) && text.hasSuffix(end) {
                let key = String(text.dropFirst(start.count).dropLast(end.count))
                guard Self.isName(key) else { return nil }
                self = make(key)
                return
            }
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        switch parts.count {
        case 2 where parts[1] == "@count" && Self.isName(parts[0]):
            self = .count(relationship: parts[0])
        case 3 where parts[2] == "@sum" && Self.isName(parts[0]) && Self.isName(parts[1]):
            self = .sum(relationship: parts[0], attribute: parts[1])
        case 3 where parts[1] == "@sum" && Self.isName(parts[0]) && Self.isName(parts[2]):
            self = .sum(relationship: parts[0], attribute: parts[2])
        default: return nil
        }
    }

    private static let functions: [(String, @Sendable (String) -> Derivation)] = [
        ("canonical", { .canonical($0) }), ("lowercase", { .lowercase($0) }),
        ("uppercase", { .uppercase($0) }),
    ]

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
    }

    /// The expression.
    public var expression: String {
        switch self {
        case .canonical(let key): "canonical:(\(key))"
        case .lowercase(let key): "lowercase:(\(key))"
        case .uppercase(let key): "uppercase:(\(key))"
        case .localizedStandard(let key, let locale): LocalizedStandard.text(key, locale)
        case .count(let relationship): "\(relationship).@count"
        case .sum(let relationship, let attribute): "\(relationship).\(attribute).@sum"
        case .now: "now()"
        }
    }

    /// The text attribute that it is made of, and what is made of it.
    var text: (key: String, function: TextDerivation)? {
        switch self {
        case .canonical(let key): (key, .function(.canonical))
        case .lowercase(let key): (key, .function(.lowercase))
        case .uppercase(let key): (key, .function(.uppercase))
        case .localizedStandard(let key, let locale):
            // A model refuses a locale that is written otherwise.
            (Collation(written: locale) ?? Collation("")).map { (key, .collationKey($0)) }
        case .count, .sum, .now: nil
        }
    }

    /// The to-many that it looks into.
    var relationship: String? {
        switch self {
        case .count(let relationship), .sum(let relationship, _): relationship
        case .canonical, .lowercase, .uppercase, .localizedStandard, .now: nil
        }
    }
}
