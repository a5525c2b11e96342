extension StoreReader {
    /// How many rows and links keep something that waits to be collected.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public var uncollectedCount: Int {
        get throws { try count("SELECT count(*) FROM _uncollected") }
    }

    /// How many deleted rows are kept until all members have seen the delete.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public var tombstoneCount: Int {
        get throws { try count("SELECT count(*) FROM _tombstone") }
    }

    private func count(_ sql: String) throws -> Int {
        let statement = try database.prepared(sql)
        guard try statement.step() else { return 0 }
        defer { statement.reset() }
        return Int(statement.integer(0))
    }
}
