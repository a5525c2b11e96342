// Key pairs for CURVE, and the files that keep them.
//
// Values only; may be used from any thread. A secret is never printed and never part of an error.

internal import CZeroMQ

/// A public key of CURVE in Z85: 40 characters that stand for 32 bytes.
public struct CurvePublicKey: Hashable, Sendable, CustomStringConvertible {
    /// The 40 characters.
    public let text: String

    /// Takes 40 characters of Z85, or gives nil where they are not.
    public init?(_ text: String) {
        guard CurveKeys.isKey(text) else { return nil }
        self.text = text
    }

    /// Names the key that 32 bytes are, or gives nil where they are not 32.
    init?(binary: [UInt8]) {
        guard binary.count == 32 else { return nil }
        var characters = [CChar](repeating: 0, count: 41)
        guard zmq_z85_encode(&characters, binary, binary.count) != nil else { return nil }
        text = CurveKeys.string(characters)
    }

    /// The 40 characters.
    public var description: String { text }
}

/// A node's own key pair.
public struct CurveKeys: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    /// The key that peers list.
    public let publicKey: CurvePublicKey
    /// The key that nobody else may have, as 40 characters of Z85.
    let secret: String

    /// Makes a new pair from the system's randomness.
    ///
    /// - Throws: ``NodeError`` where libzmq was built without CURVE.
    public static func generate() throws(NodeError) -> Self {
        var publicText = [CChar](repeating: 0, count: 41)
        var secretText = [CChar](repeating: 0, count: 41)
        guard zmq_curve_keypair(&publicText, &secretText) == 0,
            let publicKey = CurvePublicKey(string(publicText))
        else { throw withoutCurve }
        return Self(publicKey: publicKey, secret: string(secretText))
    }

    /// Makes the pair that belongs to a secret.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable` where it is no secret key.
    public init(secret: String, file: String) throws(NodeError) {
        try self.init(secret: secret, file: file, key: nil)
    }

    private init(secret: String, file: String, key: String?) throws(NodeError) {
        guard Self.isKey(secret) else {
            throw SecretFile.unreadable(
                file, key: key,
                "holds no secret key: a line of 40 characters, as `tributary keygen` writes")
        }
        var publicText = [CChar](repeating: 0, count: 41)
        guard zmq_curve_public(&publicText, secret) == 0,
            let publicKey = CurvePublicKey(Self.string(publicText))
        else { throw Self.withoutCurve }
        self.init(publicKey: publicKey, secret: secret)
    }

    private init(publicKey: CurvePublicKey, secret: String) {
        self.publicKey = publicKey
        self.secret = secret
    }

    /// Reads the pair whose secret is in a file that only its owner may read.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    public static func read(secretFile: String) throws(NodeError) -> Self {
        try read(secretFile: secretFile, key: nil)
    }

    /// The same, of a file that a setting names.
    static func read(secretFile: String, key: String?) throws(NodeError) -> Self {
        let text = try SecretFile.read(secretFile, key: key)
        return try Self(secret: text, file: secretFile, key: key)
    }

    /// Writes the secret to a new file with the mode 0600; an existing file is never overwritten.
    ///
    /// - Throws: ``NodeError`` with `secretUnreadable`, which says why.
    public func write(secretFile: String) throws(NodeError) {
        try SecretFile.create(secretFile, text: secret + "\n")
    }

    /// The public key; the secret is never printed.
    public var description: String { "public key \(publicKey.text)" }
    /// The same, so that no dump of a value shows a secret.
    public var debugDescription: String { description }
    /// The same.
    public var customMirror: Mirror { Mirror(self, children: ["publicKey": publicKey.text]) }

    /// Whether a text has the form of a key: 40 characters of Z85.
    static func isKey(_ text: String) -> Bool {
        guard text.utf8.count == 40, text.utf8.allSatisfy({ alphabet.contains($0) }) else {
            return false
        }
        var bytes = [UInt8](repeating: 0, count: 32)
        return zmq_z85_decode(&bytes, text) != nil
    }

    static func string(_ characters: [CChar]) -> String {
        String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static let alphabet = Array(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
            .utf8)

    private static var withoutCurve: NodeError {
        NodeError(.secretUnreadable, "This libzmq was built without CURVE")
    }
}
