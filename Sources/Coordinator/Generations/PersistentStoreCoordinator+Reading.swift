// Reading a consistent state: the newest, or one that is pinned.

import GRDB

extension PersistentStoreCoordinator {
    /// Reads a consistent state: the newest, or a pinned one.
    ///
    /// - Parameters:
    ///   - pin: the state; nil for the newest.
    ///   - milliseconds: how long SQLite may work on it, by ``Options/monotonicMilliseconds``; nil
    ///     for as long as it takes.
    ///   - body: the reader holds only within it.
    /// - Throws: what the closure throws, and ``CoordinatorError`` where the store cannot be
    ///   read, the pin has expired or it took too long (`readTimeout`).
    public func read<Result>(
        _ pin: GenerationPin? = nil, milliseconds: UInt64? = nil,
        _ body: (StoreReader) throws -> Result
    ) throws -> Result {
        try read(pin, milliseconds: milliseconds, while: nil, body)
    }

    /// Reads a consistent state for as long as somebody wants it.
    ///
    /// - Parameters:
    ///   - pin: the state; nil for the newest.
    ///   - milliseconds: how long SQLite may work on it; nil for as long as it takes.
    ///   - mayGoOn: is asked on the reading thread every few hundred microseconds of SQLite's work;
    ///     false ends the read.
    ///   - body: the reader holds only within it.
    /// - Throws: as ``read(_:milliseconds:_:)``, and `CancellationError` where it may not go on.
    package func read<Result>(
        _ pin: GenerationPin?, milliseconds: UInt64?, while mayGoOn: (@Sendable () -> Bool)?,
        _ body: (StoreReader) throws -> Result
    ) throws -> Result {
        let catalog = catalog
        let now = options.monotonicMilliseconds
        let (sqlDebug, wall) = (options.sqlDebug, options.wallMilliseconds)
        let instruments = instruments
        let read = { (database: Database) in
            try ReadDeadline.read(database, for: milliseconds, now: now, while: mayGoOn) {
                try body(
                    StoreReader(
                        database: $0, catalog: catalog, mayGoOn: mayGoOn,
                        now: { Int64(clamping: wall()) }, sqlDebug: sqlDebug,
                        counting: instruments.counting, observer: instruments.observer))
            }
        }
        do {
            if let pin { return try pin.read(read) }
            return try pool.read(read)
        } catch let error as SQLFailure {
            throw CoordinatorError(mapping: error)
        } catch let error as DatabaseError {
            throw CoordinatorError(mapping: error)
        }
    }

    /// Pins the newest generation; all who pin the same one share it.
    ///
    /// - Throws: ``CoordinatorError``: `limitExceeded` where too many generations are pinned.
    public func pinCurrentGeneration() throws -> GenerationPin {
        if let writer, let pin = pins.pin(generation: writer.current.token.generation) {
            pin.renew(at: options.monotonicMilliseconds())
            return pin
        }
        do {
            return try pins.add(makePin())
        } catch {
            throw CoordinatorError(mapping: error)
        }
    }

    /// Pins the newest generation for one who reads for long: reads through one pin take turns.
    ///
    /// - Throws: as ``pinCurrentGeneration()``.
    func pinApart() throws -> GenerationPin {
        do {
            let pin = try makePin()
            try pins.add(apart: pin)
            return pin
        } catch {
            throw CoordinatorError(mapping: error)
        }
    }

    private func makePin() throws -> GenerationPin {
        let snapshot: any DatabaseReader =
            if let writablePool { try writablePool.makeSnapshot() } else { try makeFileSnapshot() }
        let catalog = catalog
        let (token, digest) = try snapshot.read {
            let reader = StoreReader(database: $0, catalog: catalog)
            return (try reader.token, try reader.digest)
        }
        return GenerationPin(
            token: token, digest: digest, snapshot: snapshot,
            pinnedAtMilliseconds: options.monotonicMilliseconds())
    }

    /// A read transaction on a file that is open for reading only: another process may write to it.
    private func makeFileSnapshot() throws -> any DatabaseReader {
        var configuration = StoreConnection.configuration(options)
        configuration.readonly = true
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: storePath, configuration: configuration)
        try queue.inDatabase { database in
            try database.beginTransaction(.deferred)
            // The transaction begins with the first read.
            try database.execute(sql: "SELECT rootpage FROM sqlite_master LIMIT 1")
        }
        return queue
    }

    /// The living pin of a token.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where that generation is neither
    ///   pinned nor the newest.
    public func pin(_ token: QueryGenerationToken) throws -> GenerationPin {
        let current = try currentToken
        // By the whole token: after a power loss or a restore a number names another state.
        if let pin = pins.pin(generation: token.generation), pin.token == token { return pin }
        if token == current {
            let pin = try pinCurrentGeneration()
            if pin.token == token { return pin }
        }
        throw CoordinatorError(
            .queryGenerationExpired,
            "Generation \(token.generation) is not pinned here any more; pin a newer one.")
    }

    /// The living pin of a token for somebody who goes on reading by it, and has it for the whole limit.
    func share(_ token: QueryGenerationToken) throws -> GenerationPin {
        let pin = try pin(token)
        pin.renew(at: options.monotonicMilliseconds())
        return pin
    }
}
