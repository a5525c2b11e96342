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

    // MARK: Tables

    /// What it is called where a store notes its ``fingerprint``.
    var name: String {
        switch self {
        case .function(let function): "\(function)"
        case .collationKey(let collation): "localizedStandard:\(collation.locale)"
        }
    }

    /// What tells the tables behind it from others, of another version of Unicode or ICU.
    var fingerprint: String {
        switch self {
        case .function(let function): Self.fingerprints[function] ?? ""
        case .collationKey(let collation): collation.version
        }
    }

    /// Hashes of what the functions make of one text.
    private static let fingerprints: [ResolvedFunction.Text: String] = {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: sampled.joined().compactMap { Unicode.Scalar($0) })
        let sample = PropertyValue.string(String(text))
        let functions: [ResolvedFunction.Text] = [.lowercase, .uppercase, .canonical]
        return Dictionary(
            uniqueKeysWithValues: functions.map { function in
                let result = ResolvedFunction.text(function).apply([sample])
                var hash: UInt64 = 0xCBF2_9CE4_8422_2325
                for byte in (ResolvedFunction.text(result) ?? "").utf8 {
                    hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
                }
                return (function, String(hash, radix: 16))
            })
    }()

    /// The blocks that have letters with case, and marks, with room for those of later versions: 24,000
    /// characters, for 50 milliseconds once a process.
    private static let sampled: [ClosedRange<UInt32>] = [
        0x80...0x10FF, 0x1200...0x13FF, 0x1680...0x218F, 0x2C00...0x2DFF, 0x3000...0x30FF,
        0xA640...0xABFF, 0xF900...0xFB4F, 0xFE20...0xFE2F, 0x1_0400...0x1_1FFF,
        0x1_6A00...0x1_6FFF, 0x1_CF00...0x1_D2FF, 0x1_DA00...0x1_EAFF,
    ]
}
