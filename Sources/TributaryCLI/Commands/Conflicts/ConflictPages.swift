import Coordinator

/// The conflict journal, page by page.
enum ConflictPages {
    /// The newest conflicts of a list, and whether there are more.
    ///
    /// - Parameters:
    ///   - count: how many, at least 1.
    ///   - path: the list, without its limit.
    static func newest(
        _ count: Int, of path: RequestPath, from interface: some ClientInterface
    ) async throws -> (conflicts: [JSONObject], isCut: Bool) {
        var conflicts: [JSONObject] = []
        var next: String?
        repeat {
            // A page ends sooner where its conflicts are large.
            let page = path.adding("after", next).adding("limit", String(count - conflicts.count))
            let answer = try await interface.get(page.description).json.object
            conflicts += (answer?["conflicts"]?.array ?? []).compactMap(\.object)
            next = answer?["next"]?.string
        } while next != nil && conflicts.count < count
        return (conflicts, next != nil)
    }
}
