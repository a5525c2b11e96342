extension PersistentStoreCoordinator {
    /// Carries a batch request out, and blocks until it is on disk.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - author: who is named as the author in history.
    ///   - contextName: the name that history has for the context.
    ///   - progress: is told after each transaction what was done so far. If it throws, the request ends.
    /// - Throws: ``CoordinatorError`` where nothing was done, and ``BatchError`` where a part of it was.
    ///   With `outcomeUnknown` the transaction under way may have been saved.
    @discardableResult
    public func execute(
        _ request: some BatchRequest, author: String? = nil, contextName: String? = nil,
        progress: (@Sendable (BatchResult) throws -> Void)? = nil
    ) throws -> BatchResult {
        let saveID = try beginBatch(request)
        defer { savesUnderWay.end(saveID) }
        var run = try BatchRun(request, self, author: author, contextName: contextName)
        let batch = run.batch
        if run.choosesFirst { run.begin(try read { try batch.chosen($0) }) }
        do {
            while let part = try run.next() {
                run.note(part, try saveBlocking(size: part.size, part.make))
                try run.tell(progress)
            }
        } catch { throw run.failure(error) }
        return run.result
    }

    /// Carries a batch request out, and waits until it is on disk without blocking a thread. A task that is
    /// cancelled ends the request after the transaction under way.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - author: who is named as the author in history.
    ///   - contextName: the name that history has for the context.
    ///   - progress: is told after each transaction what was done so far. If it throws, the request ends.
    /// - Throws: ``CoordinatorError`` or `CancellationError` where nothing was done, and ``BatchError``
    ///   where a part of it was. With `outcomeUnknown` the transaction under way may have been saved.
    @discardableResult
    public func execute(
        _ request: some BatchRequest, author: String? = nil, contextName: String? = nil,
        progress: (@Sendable (BatchResult) throws -> Void)? = nil
    ) async throws -> BatchResult {
        try await whileUnderWay(request) {
            try await carryOut(
                request, author: author, contextName: contextName, progress: progress)
        }
    }

    /// Does something while a request is noted as under way under its save ID.
    ///
    /// - Throws: ``CoordinatorError`` (`outcomeUnknown`) where one is already.
    package func whileUnderWay<Outcome>(
        _ request: some BatchRequest, _ body: () async throws -> Outcome
    ) async throws -> Outcome {
        let saveID = try beginBatch(request)
        defer { savesUnderWay.end(saveID) }
        return try await body()
    }

    /// Carries a request out that is noted as under way.
    package func carryOut(
        _ request: some BatchRequest, author: String?, contextName: String?,
        progress: (@Sendable (BatchResult) throws -> Void)?
    ) async throws -> BatchResult {
        var run = try BatchRun(request, self, author: author, contextName: contextName)
        let batch = run.batch
        if run.choosesFirst {
            run.begin(try await readElsewhere { try batch.chosen($1) })
        }
        do {
            while let part = try run.next() {
                try Task.checkCancellation()
                run.note(part, try await saveWaiting(size: part.size, part.make))
                try run.tell(progress)
            }
        } catch { throw run.failure(error) }
        return run.result
    }

    /// How many objects a batch request would be done with now.
    ///
    /// - Throws: ``CoordinatorError`` where it would be refused.
    package func count(of request: some BatchRequest) throws -> Int {
        try BatchRun.count(request, self)
    }

    /// Notes that a request is under way under its save ID.
    ///
    /// - Throws: ``CoordinatorError`` (`outcomeUnknown`) where one is already.
    private func beginBatch(_ request: some BatchRequest) throws -> String? {
        guard let saveID = request.options.saveID else { return nil }
        guard savesUnderWay.beginAlone(saveID) else {
            throw CoordinatorError(
                .outcomeUnknown, "A request is under way under the save ID \(saveID).")
        }
        return saveID
    }
}

extension ManagedObjectContext {
    /// Carries a batch request out in the store, and blocks until it is on disk; history has this
    /// context's ``transactionAuthor`` and ``name``.
    ///
    /// The context's objects stay as they are, and so does its pinned generation, until it merges the
    /// changes; a stale one that is saved conflicts. What the context has not saved is no part of it. To be
    /// used on its queue.
    ///
    /// - Throws: as ``PersistentStoreCoordinator/execute(_:author:contextName:progress:)``.
    @discardableResult
    public func execute(_ request: some BatchRequest) throws -> BatchResult {
        confine()
        return try persistentStoreCoordinator.execute(
            request, author: transactionAuthor, contextName: name)
    }
}
