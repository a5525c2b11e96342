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
        guard case .pinned(let pin) = graph.generation else { return nil }
        return pin.token
    }

    /// Pins the context to the newest generation, taken at its next read; from then on it
    /// fetches and faults from that state, until it saves, merges or is reset. To be used on
    /// its queue.
    ///
    /// Objects it has keep their values until they are refreshed.
    ///
    /// - Precondition: The context has no parent: a child reads by the generation of its outermost one.
    public func setQueryGeneration(
        from current: CurrentQueryGeneration, file: StaticString = #fileID, line: UInt = #line
    ) {
        confineGeneration(at: SourcePlace(file, line))
        graph.generation = .pinnedAtNextRead
    }

    /// Pins the context to the generation of a token, such as another context's; nil unpins.
    /// To be used on its queue.
    ///
    /// - Precondition: The context has no parent.
    /// - Throws: ``CoordinatorError`` `queryGenerationExpired` where nobody holds that
    ///   generation any more.
    public func setQueryGeneration(
        from token: QueryGenerationToken?, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        confineGeneration(at: SourcePlace(file, line))
        guard let token else {
            graph.generation = .newest
            return
        }
        graph.generation = .pinned(try persistentStoreCoordinator.share(token))
    }

    private func confineGeneration(at place: SourcePlace) {
        confine("setQueryGeneration(from:)", at: place)
        require(
            parent == nil,
            "A context with a parent has no generation of its own; set that of the outermost parent.",
            at: place)
    }
}
