import Merge

/// What a fetch reads of the store, without a context's unsaved changes. Usable on any thread.
struct StoredFetch: Sendable {
    /// With the limit and the offset that the store is to regard.
    let request: FetchRequest
    let content: FetchCursor.Content
    /// At most so many from the first on.
    var wanted = Int.max
    /// Those before this place need no values.
    var shown = 0
    /// Whether what the objects are sorted by is read too.
    let selectsSortKeys: Bool
    /// What `now()` is; nil for what the reader says.
    let moment: Int64?
    /// When it is read, in milliseconds of the coordinator's monotonic clock.
    let milliseconds: UInt64

    /// Reads the objects in order.
    ///
    /// - Parameters:
    ///   - rows: gets the rows that were read along.
    ///   - isSkipped: whether an object is left out.
    ///   - element: makes a result of an identity, its values and what it is sorted by.
    func read<Element>(
        _ reader: StoreReader, keeping rows: inout [CachedRow],
        skipping isSkipped: (ManagedObjectID) -> Bool,
        _ element: (ManagedObjectID, FaultSource, [PropertyValue]) throws -> Element
    ) throws -> [Element] {
        var reader = reader
        if let moment { reader.now = { moment } }
        let cursor = try FetchCursor(
            reader, request, content, selectsSortKeys: selectsSortKeys, isHeld: true)
        defer { cursor.close() }
        let generation = try reader.generation
        var result: [Element] = []
        while result.count < wanted, try cursor.next() {
            let objectID = cursor.objectID
            if isSkipped(objectID) { continue }
            var source = FaultSource.none
            switch content {
            case .rows where result.count >= shown:
                if let snapshot = try cursor.snapshot() {
                    let row = CachedRow(
                        snapshot, generation: generation, milliseconds: milliseconds)
                    rows.append(row)
                    source = .row(row)
                }
            case .properties:
                source = .partial(
                    try cursor.partial(generation: generation, milliseconds: milliseconds))
            case .identities, .rows: break
            }
            result.append(
                try element(objectID, source, selectsSortKeys ? try cursor.sortValues() : []))
        }
        return result
    }
}
