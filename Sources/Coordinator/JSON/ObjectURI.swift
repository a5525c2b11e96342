package import Merge

/// The URI of an object: `x-tributary://CLUSTER/Entity/pDECIMAL`.
package struct ObjectURI: Hashable, Sendable, CustomStringConvertible {
    /// The beginning of every object URI.
    package static let scheme = "x-tributary://"

    /// The cluster the object lives in.
    package let cluster: String
    /// The object's entity.
    package let entityName: String
    /// The object's row.
    package let row: RowID

    /// Composes a URI.
    package init(cluster: String, entityName: String, row: RowID) {
        self.cluster = cluster
        self.entityName = entityName
        self.row = row
    }

    /// Reads what ``description`` prints; nil where it is anything else.
    package init?(_ text: String) {
        guard text.utf8.count <= 1_024, text.hasPrefix(Self.scheme) else { return nil }
        let parts = text.dropFirst(Self.scheme.count)
            .split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, !parts[1].isEmpty, let row = RowID(parts[2]),
            row.description == parts[2]
        else { return nil }
        cluster = String(parts[0])
        entityName = String(parts[1])
        self.row = row
    }

    /// Reads an object's name in a request to a cluster: its URI, or `Entity/pDECIMAL` as tables show it.
    package init?(_ text: String, in cluster: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        if parts.count == 2, !parts[0].isEmpty, text.utf8.count <= 1_024, let row = RowID(parts[1])
        {
            self.init(cluster: cluster, entityName: String(parts[0]), row: row)
        } else {
            self.init(text)
        }
    }

    /// The identity within the cluster.
    package var objectID: ManagedObjectID { ManagedObjectID(entityName: entityName, row: row) }

    /// The URI as text.
    package var description: String { "\(Self.scheme)\(cluster)/\(entityName)/\(row)" }
}
