/// Comparisons of texts that SQLite has no operator for. Pure; SQL and memory both call these.
enum TextComparison: Int64, Hashable, Sendable {
    case beginsWith
    case endsWith
    case contains
    case like
    case matches

    /// Whether a text compares.
    ///
    /// - Parameter needle: what it is compared with, folded with the options already, but for a
    ///   regular expression.
    func holds(_ text: String, _ needle: String, _ options: ComparisonOptions) -> Bool {
        if self == .matches {
            return RegularExpressionCache.shared.expression(needle, options)?.matches(text) ?? false
        }
        let text = TextFolding.fold(text, options)
        switch self {
        case .beginsWith: return text.utf8.starts(with: needle.utf8)
        case .endsWith: return text.utf8.reversed().starts(with: needle.utf8.reversed())
        case .contains: return Self.contains(Array(text.utf8), Array(needle.utf8))
        case .like:
            // A pattern that a value gives may be of any length.
            guard needle.utf8.count <= Self.maximumPattern else { return false }
            return Self.like(
                text.unicodeScalars.map(\.value), needle.unicodeScalars.map(\.value))
        case .matches: return false
        }
    }

    /// How many bytes a pattern of LIKE may have, which a constant cannot exceed by being folded. A
    /// longer one matches nothing; nor does one of MATCHES that is no regular expression.
    private static let maximumPattern = 100_000

    /// The comparison that an operator stands for; nil where it is not of texts.
    init?(_ comparison: PredicateComparison.Operator) {
        switch comparison {
        case .beginsWith: self = .beginsWith
        case .endsWith: self = .endsWith
        case .contains: self = .contains
        case .like: self = .like
        case .matches: self = .matches
        default: return nil
        }
    }

    /// Searches in time of text plus needle (Knuth, Morris and Pratt): both come from outside.
    private static func contains(_ text: [UInt8], _ needle: [UInt8]) -> Bool {
        guard !needle.isEmpty else { return true }
        guard needle.count <= text.count else { return false }
        var borders = [Int](repeating: 0, count: needle.count)
        var length = 0
        for index in 1..<max(1, needle.count) {
            while length > 0, needle[index] != needle[length] { length = borders[length - 1] }
            if needle[index] == needle[length] { length += 1 }
            borders[index] = length
        }
        length = 0
        for byte in text {
            while length > 0, byte != needle[length] { length = borders[length - 1] }
            if byte == needle[length] { length += 1 }
            if length == needle.count { return true }
        }
        return false
    }

    /// Matches `*` (any text), `?` (one scalar) and `\` before what stands for itself, in time of
    /// text times pattern at most.
    private static func like(_ text: [UInt32], _ pattern: [UInt32]) -> Bool {
        enum Part: Equatable {
            case star
            case one
            case literal(UInt32)
        }
        var parts: [Part] = []
        var isEscaped = false
        for scalar in pattern {
            switch scalar {
            case 0x5C where !isEscaped:
                isEscaped = true
                continue
            case 0x2A where !isEscaped: if parts.last != .star { parts.append(.star) }
            case 0x3F where !isEscaped: parts.append(.one)
            default: parts.append(.literal(scalar))
            }
            isEscaped = false
        }
        if isEscaped { parts.append(.literal(0x5C)) }
        var position = 0
        var part = 0
        var restart: (position: Int, part: Int)?
        while position < text.count {
            if part < parts.count, parts[part] == .star {
                part += 1
                restart = (position, part)
            } else if part < parts.count,
                parts[part] == .one || parts[part] == .literal(text[position])
            {
                part += 1
                position += 1
            } else if let last = restart {
                restart = (last.position + 1, last.part)
                position = last.position + 1
                part = last.part
            } else {
                return false
            }
        }
        return parts[part...].allSatisfy { $0 == .star }
    }
}
