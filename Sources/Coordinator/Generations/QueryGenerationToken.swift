public import Merge

/// Names one immutable state of a store, as NSQueryGenerationToken.
///
/// A token travels: a fetch after a token, on any node, waits until that node covers its vector.
///
/// The text of one with many incarnations names of its vector the frontier alone (``Beginnings``), and
/// the sum of all, so that it does not grow with every incarnation there ever was. Read back it is not
/// ``isWhole`` before it is ``completed(by:)`` the beginnings of a store; it is waited for, and equal to
/// the one that made the text, either way.
public struct QueryGenerationToken: Hashable, Sendable {
    /// The store: the number drawn when its file was made.
    public let store: UInt64
    /// The count of commits of that store.
    public let generation: UInt64
    /// The position of the last transaction in that store's log.
    public let position: UInt64
    /// All the transactions the state contains; where it is not ``isWhole``, as many as are known to be.
    public let versionVector: VersionVector
    /// Whether the vector is all there.
    public var isWhole: Bool { versionVector.total == total }
    /// The sum of what all of the vector has.
    private let total: UInt64
    /// By which the text leaves out what they imply.
    package let beginnings: Beginnings

    /// Composes a token.
    ///
    /// - Parameter beginnings: of the store that it is of; without them its text names all of the vector.
    package init(
        store: UInt64, generation: UInt64, position: UInt64, versionVector: VersionVector,
        beginnings: Beginnings = Beginnings()
    ) {
        self.beginnings = beginnings
        total = versionVector.total
        self.store = store
        self.generation = generation
        self.position = position
        self.versionVector = versionVector
    }

    /// Vectors of up to so many incarnations are written whole, so that a reader who knows less of
    /// the cluster knows what is meant. Their text has a kilobyte and a half.
    private static let named = 64

    /// The part of the vector that its text names. If the maker of the token has seen more than
    /// what is causally closed, that is all of it.
    private var told: VersionVector {
        if versionVector.entries.count <= Self.named || !isWhole { return versionVector }
        let frontier = beginnings.frontier(of: versionVector)
        return beginnings.closure(of: frontier) == versionVector ? frontier : versionVector
    }

    /// The same with all that it names, as far as the beginnings tell. Those of a store that covers it
    /// tell it all; of others ``isWhole`` says whether they do.
    package func completed(by beginnings: Beginnings) -> QueryGenerationToken {
        if isWhole { return self }
        return QueryGenerationToken(
            self, beginnings.closure(of: versionVector), beginnings: beginnings)
    }

    private init(_ token: Self, _ vector: VersionVector, beginnings: Beginnings) {
        (store, generation, position) = (token.store, token.generation, token.position)
        total = token.total
        versionVector = vector
        self.beginnings = beginnings
    }

    /// Whether two name one state of one store, by the vector or by its frontier.
    public static func == (one: Self, other: Self) -> Bool {
        one.store == other.store && one.generation == other.generation
            && one.position == other.position && one.total == other.total
            && (one.versionVector == other.versionVector || one.told == other.told)
    }

    /// Goes by the store and its places, which equal tokens share.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(store)
        hasher.combine(generation)
        hasher.combine(position)
    }

    /// The token as URL-safe text: canonical CBOR in base64url without padding. The sum stands in it where
    /// it does not name all.
    public var text: String {
        let told = told
        var writer = CBORWriter()
        writer.beginArray(told.total == total ? 4 : 5)
        writer.write(store)
        writer.write(generation)
        writer.write(position)
        writer.write(told)
        if told.total != total { writer.write(total) }
        return Base64URL.encode(writer.bytes)
    }

    /// Reads what ``text`` gives; nil where it is anything else.
    public init?(text: String) {
        guard text.utf8.count <= 1 << 20, let bytes = Base64URL.decode(text) else { return nil }
        do {
            var reader = CBORReader(bytes)
            let count = try reader.array()
            guard (4...5).contains(count) else { return nil }
            store = try reader.unsigned()
            generation = try reader.unsigned()
            position = try reader.unsigned()
            versionVector = try reader.vector()
            total = count == 4 ? versionVector.total : try reader.unsigned()
            guard count == 4 || total != versionVector.total else { return nil }
            beginnings = Beginnings()
            try reader.finish()
        } catch { return nil }
    }
}

/// Base64 with the URL-safe alphabet and without padding (RFC 4648, section 5).
enum Base64URL {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    static func encode(_ bytes: [UInt8]) -> String {
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count * 4 + 2) / 3)
        var accumulator: UInt32 = 0
        var bits = 0
        for byte in bytes {
            accumulator = (accumulator << 8) | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                result.append(alphabet[Int((accumulator >> UInt32(bits)) & 0x3F)])
            }
        }
        if bits > 0 { result.append(alphabet[Int((accumulator << UInt32(6 - bits)) & 0x3F)]) }
        return String(decoding: result, as: UTF8.self)
    }

    static func decode(_ text: String) -> [UInt8]? {
        var result: [UInt8] = []
        var accumulator: UInt32 = 0
        var bits = 0
        for character in text.utf8 {
            guard let value = value(of: character) else { return nil }
            accumulator = (accumulator << 6) | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                result.append(UInt8((accumulator >> UInt32(bits)) & 0xFF))
            }
        }
        guard bits < 6, accumulator & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
        return result
    }

    private static func value(of character: UInt8) -> UInt32? {
        switch character {
        case 65...90: UInt32(character - 65)
        case 97...122: UInt32(character - 71)
        case 48...57: UInt32(character) + 4
        case 45: 62
        case 95: 63
        default: nil
        }
    }
}
