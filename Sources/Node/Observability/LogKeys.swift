// The keys of log metadata, in one place so that they can be searched for. Messages are static;
// what varies goes under these keys, and never a user's values or a secret.

/// Names under which a node's log lines carry details.
enum LogKeys {
    /// An alarm's name, as in status and in the metrics.
    static let alarm = "alarm"
    /// This node's number.
    static let node = "node"
    /// The cluster's name.
    static let cluster = "cluster"
    /// The number of another node.
    static let peer = "peer"
    /// The incarnation of this node.
    static let actor = "actor"
    /// A transaction's dot.
    static let transaction = "transaction"
    /// A version vector's digest, or the digest of a projection.
    static let digest = "digest"
    /// A peer's digest.
    static let theirs = "theirs"
    /// Why something happened.
    static let reason = "reason"
    /// Which part of an agreement differs.
    static let part = "part"
    /// An address or an endpoint.
    static let address = "address"
    /// The names of consumers of history.
    static let consumer = "consumer"
    /// A count of things.
    static let count = "count"
    /// A count of bytes.
    static let bytes = "bytes"
    /// A public key.
    static let publicKey = "publicKey"
    /// A setting's key, or several.
    static let settings = "settings"
    /// An error, described.
    static let error = "error"
    /// The code of an error.
    static let code = "code"
    /// A request's method.
    static let method = "method"
    /// The path that a request asked for, without its query, or a file's.
    static let path = "path"
}
