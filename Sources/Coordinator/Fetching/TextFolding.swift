import Foundation

/// Which differences between texts a comparison ignores: `[c]` and `[d]`.
public struct ComparisonOptions: OptionSet, Hashable, Sendable {
    /// The options as bits.
    public let rawValue: Int

    /// Makes options of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Upper and lower case are alike.
    public static let caseInsensitive = ComparisonOptions(rawValue: 1)
    /// Letters with and without marks are alike.
    public static let diacriticInsensitive = ComparisonOptions(rawValue: 2)
    /// Texts compare by their bytes, as without options; goes with neither of the others.
    public static let normalized = ComparisonOptions(rawValue: 4)
}

/// Folds texts so that what `[c]` and `[d]` ignore is gone. Pure, and without any locale.
package enum TextFolding {
    /// The text without the differences that the options ignore.
    package static func fold(_ text: String, _ options: ComparisonOptions) -> String {
        guard !options.isEmpty else { return text }
        if text.utf8.allSatisfy({ $0 < 0x80 }) {
            return options.contains(.caseInsensitive) ? text.lowercased() : text
        }
        var result = String.UnicodeScalarView()
        let source =
            options.contains(.diacriticInsensitive)
            ? text.decomposedStringWithCanonicalMapping : text
        for scalar in source.unicodeScalars {
            if options.contains(.diacriticInsensitive), isMark(scalar) { continue }
            guard options.contains(.caseInsensitive) else {
                result.append(scalar)
                continue
            }
            // By way of upper case, so that letters with several lower-case forms become one.
            for upper in scalar.properties.uppercaseMapping.unicodeScalars {
                result.append(contentsOf: upper.properties.lowercaseMapping.unicodeScalars)
            }
        }
        return String(result)
    }

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value >= 0x300 && scalar.properties.generalCategory == .nonspacingMark
    }
}
