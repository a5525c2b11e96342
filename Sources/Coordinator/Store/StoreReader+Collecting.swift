extension StoreReader {
    /// How many rows and links keep something that waits to be collected.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var uncollectedCount: Int {
        get throws {
            let statement = try database.prepared(
                "SELECT coalesce(sum(CASE WHEN target < 0 THEN 1 - target - row ELSE 1 END), 0) "
                    + "FROM _uncollected")
            guard try statement.step() else { return 0 }
            defer { statement.reset() }
            return Int(statement.integer(0))
        }
    }
}
