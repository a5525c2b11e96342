// Objects that a fetch asks to have along with those it fetches.

internal import Coordinator
internal import Merge

/// Follows relationships from fetched objects; to be used within one read.
struct RelatedObjects {
    private let reader: StoreReader
    private let model: ManagedObjectModel

    init(_ reader: StoreReader, _ model: ManagedObjectModel) {
        self.reader = reader
        self.model = model
    }

    /// How many paths may be followed: each goes through all objects again.
    static let maximumPaths = 32

    /// Hands the objects at the end and along key paths to a closure, each once, in the order in
    /// which they are met.
    ///
    /// - Throws: ``HTTPError`` (malformed) for a path that is no relationship, and for too many.
    func forEach(
        from objects: [ManagedObjectID], along paths: [String],
        _ body: (RowSnapshot) throws -> Void
    ) throws {
        guard paths.count <= Self.maximumPaths else {
            throw HTTPError.malformed(
                "\"prefetch\" has \(paths.count) paths; at most \(Self.maximumPaths) are followed.")
        }
        var found = Set<RowID>()
        for path in paths {
            var level = objects
            for name in path.split(separator: ".", omittingEmptySubsequences: false) {
                var next: [ManagedObjectID] = []
                var seen = Set<RowID>()
                for object in level {
                    for related in try related(to: object, by: String(name), path: path)
                    where seen.insert(related.row).inserted { next.append(related) }
                }
                level = next
                for object in level where found.insert(object.row).inserted {
                    guard let entity = model.entity(named: object.entityName),
                        let row = try reader.row(entity, object.row)
                    else { continue }
                    try body(row)
                }
            }
        }
    }

    private func related(
        to object: ManagedObjectID, by name: String, path: String
    ) throws -> [ManagedObjectID] {
        guard let entity = model.entity(named: object.entityName),
            let relationship = entity.relationship(named: name),
            let destination = model.entity(named: relationship.destination)
        else {
            throw HTTPError.malformed("\"prefetch\": \"\(path)\" is no path of relationships.")
        }
        guard let position = entity.position(of: name) else {
            return try reader.members(of: relationship, entity: entity, row: object.row)
        }
        guard let row = try reader.row(entity, object.row),
            case .reference(let target) = row.values[position],
            let found = try reader.row(destination, target)
        else { return [] }
        return [found.objectID]
    }
}
