import Merge

/// Names the newest state of a store, at the time of the next read.
public enum CurrentQueryGeneration: Sendable {
    /// The state at the next read.
    case current
}

/// Which state of the store a context reads.
enum GenerationState {
    /// The newest, at each read.
    case newest
    /// The newest at the next read, and from then on that one.
    case pinnedAtNextRead
    /// This one.
    case pinned(GenerationPin)
}

extension ManagedObjectContext {
    /// The generation it is pinned to; nil where it reads the newest, or pins at its next read.
    /// To be used on its queue.
    public var queryGenerationToken: QueryGenerationToken? {
        confine()
        guard case .pinned(let pin) = generation else { return nil }
        return pin.token
    }

    /// Pins the context to the newest generation, taken at its next read; from then on it
    /// fetches and faults from that state, until it saves, merges or is reset. To be used on
    /// its queue.
    ///
    /// Objects it has keep their values until they are refreshed.
    public func setQueryGeneration(from current: CurrentQueryGeneration) {
        confine()
        generation = .pinnedAtNextRead
    }

    /// Pins the context to the generation of a token, such as another context's; nil unpins.
    /// To be used on its queue.
    ///
    /// - Throws: ``CoordinatorError`` `queryGenerationExpired` where nobody holds that
    ///   generation any more.
    public func setQueryGeneration(from token: QueryGenerationToken?) throws {
        confine()
        guard let token else {
            generation = .newest
            return
        }
        generation = .pinned(try persistentStoreCoordinator.share(token))
    }

    /// Reads from the generation that the context is pinned to, or the newest.
    func read<Result>(_ body: (StoreReader) throws -> Result) throws -> Result {
        switch generation {
        case .newest: return try persistentStoreCoordinator.read(nil, body)
        case .pinned(let pin): return try persistentStoreCoordinator.read(pin, body)
        case .pinnedAtNextRead:
            let pin = try persistentStoreCoordinator.pinCurrentGeneration()
            generation = .pinned(pin)
            return try persistentStoreCoordinator.read(pin, body)
        }
    }

    /// Moves a pinned context to the newest generation; others stay unpinned.
    ///
    /// Cannot fail: where no pin is to be had, the next read takes one or says why not.
    func renewGeneration() {
        if case .newest = generation { return }
        do {
            generation = .pinned(try persistentStoreCoordinator.pinCurrentGeneration())
        } catch { generation = .pinnedAtNextRead }
    }
}
