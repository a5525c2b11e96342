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
        guard let collator = Collator.of(locale) else { return nil }
        self.locale = collator.locale
        self.collator = collator
    }

    /// The key of a text; never empty.
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

/// A collator of ICU's, which one thread at a time may use.
private final class Collator: Sendable {
    let locale: String
    let version: String
    private let handle: Mutex<OpaquePointer>

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
        self.version = (version + tables).map(String.init).joined(separator: ".")
        self.locale = locale
        self.handle = Mutex(handle)
    }

    deinit { handle.withLock { swift_ucol_close($0) } }

    func key(of text: String) -> [UInt8] {
        let units = Array(text.utf16)
        return handle.withLock { handle in
            var capacity = 4 * units.count + 16
            while true {
                var needed = 0
                let key = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
                    needed = Int(
                        swift_ucol_getSortKey(
                            handle, units, Int32(units.count), buffer.baseAddress, Int32(capacity)))
                    // A zero byte ends it, which no other in it is.
                    count = max(0, min(needed, capacity) - 1)
                }
                if needed <= capacity { return key }
                capacity = needed
            }
        }
    }

    // MARK: Those in use

    /// How many are kept.
    private static let capacity = 32

    /// The ones that were asked for last, by what was asked for; the latest at the end.
    private static let kept = Mutex<[(name: String, collator: Collator)]>([])

    /// The collator of a locale; nil where there is none.
    static func of(_ name: String) -> Collator? {
        kept.withLock { kept in
            if let place = kept.lastIndex(where: { $0.name == name }) {
                let found = kept[place]
                if place < kept.count - 1 {
                    kept.remove(at: place)
                    kept.append(found)
                }
                return found.collator
            }
            guard let locale = canonical(name), let made = Collator(canonical: locale) else {
                return nil
            }
            if kept.count >= capacity { kept.removeFirst() }
            kept.append((name, made))
            return made
        }
    }

    /// The languages that ICU has an order for.
    private static let languages: Set<String> = Set(
        (0..<swift_ucol_countAvailable()).compactMap { index in
            swift_ucol_getAvailable(index).map { name in
                String(String(cString: name).prefix { $0 != "_" })
            }
        })

    /// A locale in one spelling; nil where it is not well-formed, or of no known language. ICU would
    /// fall back without a word.
    private static func canonical(_ name: String) -> String? {
        if name.isEmpty { return "" }
        guard name.utf8.count <= 16, name.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        var parts = name.split(separator: "_", omittingEmptySubsequences: false)
            .flatMap { $0.split(separator: "-", omittingEmptySubsequences: false) }[...]
        guard let language = parts.popFirst()?.lowercased(), languages.contains(language) else {
            return nil
        }
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
