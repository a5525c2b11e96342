public import Merge

/// A backup that was made, or restored: what it holds.
public struct StoreBackup: Hashable, Sendable {
    /// Where it is.
    public var path: String
    /// The file's length in bytes.
    public var bytes: UInt64
    /// The cluster and the node that own the store.
    public var cluster: String
    /// The node that owns the store.
    public var node: NodeID
    /// The generation that was copied.
    public var generation: UInt64
    /// All that is applied in it.
    public var versionVector: VersionVector
    /// The members in it.
    package internal(set) var membership = Membership()
}

extension StoreBackup {
    /// As the HTTP interface and the command line show it.
    package var json: JSONObject {
        var vector = JSONObject()
        for entry in versionVector.entries {
            vector[entry.actor.description] = .integer(Int64(clamping: entry.sequence))
        }
        return [
            "path": .string(path), "bytes": .integer(Int64(clamping: bytes)),
            "cluster": .string(cluster), "node": .integer(Int64(node.rawValue)),
            "generation": .integer(Int64(clamping: generation)), "vector": .object(vector),
        ]
    }
}
