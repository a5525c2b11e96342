public import Merge

/// How a person, or a program for one, decides a conflict.
public enum ConflictResolution: Hashable, Sendable {
    /// The side that this transaction wrote.
    case side(Dot)
    /// The side of this object that this transaction wrote: it may have given several objects one
    /// unique key.
    case sideOf(ManagedObjectID, Dot)
    /// The side with this number, from 1, in the order in which the conflict lists them.
    case sideNumber(Int)
    /// These values, by property, among them one for what is in dispute.
    case values([String: PropertyValue])
    /// The choice of this policy.
    case policy(MergePolicy)
    /// The object goes.
    case delete
    /// Changes to the objects of a group with one unique key, to a key of one at least.
    case change([ManagedObjectID: [String: PropertyValue]])
}

extension PersistentStoreCoordinator {
    /// Resolves a conflict by an ordinary save that dominates all its sides, so that it
    /// replicates like any other.
    ///
    /// - Parameters:
    ///   - sides: the dots of the sides that the person who decides has seen; nil to decide over
    ///     sides that they have not seen.
    ///   - author: who decides, in the application's words.
    ///   - contextName: where they decide, such as the name of a program.
    ///   - note: why, at most 1,000 bytes of UTF-8; ``ConflictDecision/note`` tells it on every node.
    /// - Throws: ``CoordinatorError``: `conflictNotFound`, `sidesChanged` where there are others
    ///   by now, `sideAmbiguous`, `malformed` for values that leave it open, and whatever a save
    ///   may throw.
    public func resolve(
        _ id: ConflictID, _ resolution: ConflictResolution, sides: [Dot]? = nil,
        author: String? = nil, contextName: String? = nil, note: String? = nil
    ) async throws -> SaveResult {
        try await saveWaiting(size: 1) { engine in
            try engine.resolver.resolution(
                of: id, resolution, sides: sides,
                by: SaveDescription(author: author, contextName: contextName, note: note))
        }
    }

    /// The same, blocking the calling thread.
    public func resolve(
        _ id: ConflictID, _ resolution: ConflictResolution, sides: [Dot]? = nil,
        author: String? = nil, contextName: String? = nil, note: String? = nil
    ) throws -> SaveResult {
        try saveBlocking(size: 1) { engine in
            try engine.resolver.resolution(
                of: id, resolution, sides: sides,
                by: SaveDescription(author: author, contextName: contextName, note: note))
        }
    }

    /// Writes what a conflict's outcome replaced: the side that lost, or what was visible before
    /// a resolution.
    ///
    /// - Parameters:
    ///   - sides: the dots that the person who undoes it has seen: those of the sides and,
    ///     if the conflict is closed, those of later writes over the same thing; nil to write over
    ///     what they have not seen.
    ///   - author: as for ``resolve(_:_:sides:author:contextName:note:)``.
    ///   - contextName: likewise.
    ///   - note: likewise.
    /// - Throws: as ``resolve(_:_:sides:author:contextName:note:)``.
    public func undo(
        _ id: ConflictID, sides: [Dot]? = nil, author: String? = nil,
        contextName: String? = nil, note: String? = nil
    ) async throws -> SaveResult {
        try await saveWaiting(size: 1) { engine in
            try engine.resolver.undoing(
                id, sides: sides,
                by: SaveDescription(author: author, contextName: contextName, note: note))
        }
    }

    /// The same, blocking the calling thread.
    public func undo(
        _ id: ConflictID, sides: [Dot]? = nil, author: String? = nil,
        contextName: String? = nil, note: String? = nil
    ) throws -> SaveResult {
        try saveBlocking(size: 1) { engine in
            try engine.resolver.undoing(
                id, sides: sides,
                by: SaveDescription(author: author, contextName: contextName, note: note))
        }
    }
}
