import Synchronization
import _FoundationICU

/// The order in which people of a language expect texts, as ICU has it: numbers in texts by their value,
/// then letters, marks and case.
///
/// Two texts lie to each other as the bytes of their keys do. The process's own locale is never asked.
struct Collation: Hashable, Sendable {
    /// The locale in one spelling, such as "sv_SE"; "" for the root, which is of no language.
    let locale: String
    private let collator: Collator

    /// The order of a locale.
    ///
    /// - Parameter locale: a language that ICU has an order for, perhaps with a script and a region;
    ///   what has no order of its own is ordered as the language is.
    /// - Returns: nil for any other.
    init?(_ locale: String) {
        guard Collator.isKnown(locale) else { return nil }
        self.init(written: locale)
    }

    /// The order of a locale that a program had which may know more languages: that of the root for one
    /// that is not known here.
    ///
    /// - Returns: nil where it is not written as a locale is.
    init?(written locale: String) {
        guard let collator = Collator.of(locale) else { return nil }
        self.locale = collator.locale
        self.collator = collator
    }

    /// The key of a text; never empty. Different texts have different keys: what is equal in the order of
    /// the language is ordered by its bytes.
    func key(of text: String) -> [UInt8] { collator.key(of: text) }

    /// The version of the tables behind the order: what another one gave may be other keys.
    var version: String { collator.version }

    /// What is wrong with a locale that has no order.
    static func refusal(_ locale: String) -> String {
        "there is no order of texts for the locale \(PredicateText.quoted(locale)); name a language, "
            + "perhaps with a script and a region, such as de, sv_SE or zh_Hant"
    }

    static func == (left: Collation, right: Collation) -> Bool { left.locale == right.locale }
    func hash(into hasher: inout Hasher) { hasher.combine(locale) }
}

/// A collator of ICU's. Nobody changes it once it is made, and then ICU lets many threads use it at once.
private final class Collator: @unchecked Sendable {
    let locale: String
    let version: String
    private let handle: OpaquePointer

    private init?(canonical locale: String) {
        var status = U_ZERO_ERROR
        guard let handle = swift_ucol_open(locale, &status) else { return nil }
        // The order of the root stands for whatever has none of its own: a warning, and below zero.
        guard status.rawValue <= U_ZERO_ERROR.rawValue else {
            swift_ucol_close(handle)
            return nil
        }
        for (attribute, value) in [
            (UCOL_NUMERIC_COLLATION, UCOL_ON), (UCOL_STRENGTH, UCOL_TERTIARY),
            (UCOL_NORMALIZATION_MODE, UCOL_ON),
        ] {
            swift_ucol_setAttribute(handle, attribute, value, &status)
        }
        var version = [UInt8](repeating: 0, count: Int(U_MAX_VERSION_LENGTH))
        var tables = version
        swift_ucol_getVersion(handle, &version)
        swift_ucol_getUCAVersion(handle, &tables)
        // The last part is for what is set and added here.
        self.version = (version + tables).map(String.init).joined(separator: ".") + "-1"
        self.locale = locale
        self.handle = handle
    }

    deinit { swift_ucol_close(handle) }

    /// Of a longer text so many units decide, and then its bytes.
    private static let units = 1 << 26

    func key(of text: String) -> [UInt8] {
        let units = Array(text.utf16.prefix(Self.units))
        var key = collationKey(of: units, capacity: 4 * units.count + 16)
        // Of its own size, as many are held.
        key.reserveCapacity(key.count + text.utf8.count)
        key.append(contentsOf: text.utf8)
        return key
    }

    /// ICU's key, which ends with a zero byte; no other in it is.
    private func collationKey(of units: [UInt16], capacity: Int) -> [UInt8] {
        var needed = 0
        let key = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            needed = Int(
                swift_ucol_getSortKey(
                    handle, units, Int32(units.count), buffer.baseAddress, Int32(capacity)))
            count = min(needed, capacity)
        }
        return needed > capacity ? collationKey(of: units, capacity: needed) : Array(key[...])
    }

    // MARK: Those in use

    /// How many are kept; with one more all are made once more.
    private static let capacity = 128

    /// Those that were asked for, by their locales in one spelling.
    private static let kept = Mutex<[String: Collator]>([:])

    /// The collator of a locale; nil where it is not written as one is.
    static func of(_ name: String) -> Collator? {
        if let known = kept.withLock({ $0[name] }) { return known }
        guard let locale = canonical(name) else { return nil }
        if let known = kept.withLock({ $0[locale] }) { return known }
        guard let made = Collator(canonical: locale) else { return nil }
        return kept.withLock { kept in
            if kept.count >= capacity { kept = [:] }
            kept[locale] = made
            return made
        }
    }

    /// Whether ICU has an order for a locale's language. For any other it has the root's without a word.
    static func isKnown(_ name: String) -> Bool {
        guard let locale = canonical(name) else { return false }
        return locale.isEmpty || languages.contains(String(locale.prefix { $0 != "_" }))
    }

    /// The languages that ICU has an order for.
    private static let languages: Set<String> = Set(
        (0..<swift_ucol_countAvailable()).compactMap { index in
            swift_ucol_getAvailable(index).map { name in
                String(String(cString: name).prefix { $0 != "_" })
            }
        })

    /// A locale in one spelling; nil where it is not well-formed.
    private static func canonical(_ name: String) -> String? {
        if name.isEmpty { return "" }
        guard name.utf8.count <= 16, name.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        var parts = name.split(separator: "_", omittingEmptySubsequences: false)
            .flatMap { $0.split(separator: "-", omittingEmptySubsequences: false) }[...]
        guard let language = parts.popFirst()?.lowercased(), (2...8).contains(language.count),
            language.allSatisfy(\.isLetter)
        else { return nil }
        var result = language
        if let script = parts.first, script.count == 4, script.allSatisfy(\.isLetter) {
            result += "_" + script.prefix(1).uppercased() + script.dropFirst().lowercased()
            parts.removeFirst()
        }
        if let region = parts.first {
            guard
                region.count == 2 && region.allSatisfy(\.isLetter)
                    || region.count == 3 && region.allSatisfy(\.isNumber)
            else { return nil }
            result += "_" + region.uppercased()
            parts.removeFirst()
        }
        return parts.isEmpty ? result : nil
    }
}

/// `localizedStandard:(key)` and `localizedStandard:(key, locale)`, as sort lists and models write them.
enum LocalizedStandard {
    private static let (start, end) = ("localizedStandard:(", ")")

    static func text(_ key: String, _ locale: String) -> String {
        start + key + (locale.isEmpty ? "" : ", \(locale)") + end
    }

    /// - Returns: nil for any other text.
    static func parse(_ text: String) -> (key: String, locale: String)? {
        guard text.hasPrefix(start), text.hasSuffix(end) else { return nil }
        let parts = text.dropFirst(start.count).dropLast(end.count)
            .split(separator: ",", omittingEmptySubsequences: false)
            .map { String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
        guard (1...2).contains(parts.count), !parts.contains("") else { return nil }
        return (parts[0], parts.count == 2 ? parts[1] : "")
    }
}
