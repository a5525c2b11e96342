import Merge

/// The results of a fetch in order and in sections, and a delegate that hears how they change. As
/// NSFetchedResultsController.
///
///     let controller = FetchedResultsController<Note>(
///         fetchRequest: FetchRequest("Note", sortDescriptors: [SortDescriptor("topic")]),
///         managedObjectContext: context, sectionNameKeyPath: "topic")
///     controller.delegate = self
///     try controller.performFetch()
///
/// With a delegate, the results follow the context at the end of each event: its own changes, and
/// those of others when it merges them. Without one they stay as ``performFetch(file:line:)``
/// found them. The results are what ``ManagedObjectContext/fetch(_:)`` would give, in its order. After
/// a save inserted objects have other IDs, by which objects with equal sort keys are ordered. Those
/// that come to another place by it are reported as moved.
///
/// A change costs the evaluation of the objects that it touches. The controller fetches again and
/// compares, if the request has a limit or an offset; if an event touches objects that its key
/// paths lead through, such as owners of `owner.name`; if an event touches more than a quarter of
/// the results and more than 64 objects; and after ``ManagedObjectContext/reset()`` or
/// ``ManagedObjectContext/refreshAllObjects()``. It reads the sort keys of all results at once, so
/// ``FetchRequest/fetchBatchSize`` has no effect on it.
///
/// Threading: it belongs to its context's queue, and traps elsewhere. It keeps the context alive.
public final class FetchedResultsController<Object: ManagedObject> {
    /// The context it fetches from and follows.
    public let managedObjectContext: ManagedObjectContext
    /// Names the property by which results are divided into sections; nil for one section.
    public let sectionNameKeyPath: String?
    /// The name under which the sections are cached; nil for no cache.
    public let cacheName: String?

    private var request: FetchRequest
    private weak var currentDelegate: (any FetchedResultsControllerDelegate)?
    private var results: LiveResults?
    private var isReporting = false
    private var failure: CoordinatorError?
    /// The objects as a list, until they change.
    private var objects: [Object]?
    private let place: SourcePlace

    /// Makes a controller without results. Usable from any thread.
    ///
    /// - Parameters:
    ///   - fetchRequest: A request for objects with pending changes, with at least one sort
    ///     descriptor.
    ///   - managedObjectContext: The context to fetch from. `Object` is the class that it has
    ///     registered for the entity, or one above it.
    ///   - sectionNameKeyPath: The key path of the first sort descriptor, to divide the results into
    ///     sections by their values there. A section's name is that value as text.
    ///   - cacheName: A name to keep the sections under, for later controllers of this process with
    ///     the same request. Sections under that name are found again if the request is another
    ///     one, or if the store has moved on.
    public init(
        fetchRequest: FetchRequest, managedObjectContext: ManagedObjectContext,
        sectionNameKeyPath: String? = nil, cacheName: String? = nil,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        request = fetchRequest
        self.managedObjectContext = managedObjectContext
        self.sectionNameKeyPath = sectionNameKeyPath
        self.cacheName = cacheName
        place = SourcePlace(file, line)
    }

    /// The request. A new one takes effect with the next ``performFetch(file:line:)``. To be used on the
    /// context's queue.
    public var fetchRequest: FetchRequest {
        get {
            managedObjectContext.confine()
            return request
        }
        set {
            managedObjectContext.confine()
            request = newValue
        }
    }

    /// Hears of changes; not kept alive. While there is none the results do not change. If one
    /// is set later, it hears of what was missed with the next event. To be used on the context's
    /// queue.
    public var delegate: (any FetchedResultsControllerDelegate)? {
        get {
            managedObjectContext.confine()
            return currentDelegate
        }
        set {
            managedObjectContext.confine()
            currentDelegate = newValue
        }
    }

    /// The failure to read the store by which the results could not follow the last event; nil if
    /// they did. To be used on the context's queue.
    public var followingError: CoordinatorError? {
        managedObjectContext.confine()
        return failure
    }

    /// How many times it has read an object's sort keys or asked its predicate since it fetched.
    var evaluationCount: Int { results?.evaluations ?? 0 }

    // MARK: Fetching

    /// Fetches the results, and follows the context from now on if there is a delegate. The
    /// delegate hears nothing of the fetch. To be used on the context's queue.
    ///
    /// - Precondition: No method of the delegate is running, and the objects are of class `Object`.
    /// - Throws: ``CoordinatorError``: `malformed` without a sort descriptor, with a section key path
    ///   that is not the first of them, or with a request for anything but objects with pending
    ///   changes; and as ``ManagedObjectContext/fetch(_:)``. The results stay as they were then.
    public func performFetch(file: StaticString = #fileID, line: UInt = #line) throws {
        let place = SourcePlace(file, line)
        managedObjectContext.confine("performFetch()", at: place)
        require(
            !isReporting,
            "performFetch() was called in a method of the delegate of a controller of "
                + "\(request.entityName); call it after the event.", at: place)
        try check()
        let (before, key) = try cacheKey()
        let cached = cacheName.flatMap { name in
            key.flatMap { FetchedResultsCache.shared.sections(name, $0) }
        }
        let results = try LiveResults(
            request, hasSections: sectionNameKeyPath != nil, context: managedObjectContext,
            cached: cached)
        for entry in results.entries { checkClass(of: entry.object, at: place) }
        // What was read belongs to the state only if that was the newest all the time.
        if let cacheName, let key, cached == nil, try cacheKey().state == before {
            FetchedResultsCache.shared.keep(results.sections, cacheName, key)
        }
        self.results = results
        objects = nil
        failure = nil
        managedObjectContext.graph.live.add(self)
    }

    private func check() throws {
        func malformed(_ message: String) -> CoordinatorError {
            CoordinatorError(.malformed, "A controller of \(request.entityName) \(message)")
        }
        guard request.resultType == .objects else {
            throw malformed("fetches objects, not \(request.resultType.rawValue).")
        }
        guard request.includesPendingChanges else {
            throw malformed("follows pending changes; includesPendingChanges cannot be false.")
        }
        guard let first = request.sortDescriptors.first else {
            throw malformed("needs a sort descriptor, because its results have an order.")
        }
        if let sectionNameKeyPath, first.keyPath != sectionNameKeyPath {
            throw malformed(
                "has the section key path \(sectionNameKeyPath), so its first sort descriptor must "
                    + "be of that key path too, not of \(first.keyPath).")
        }
    }

    private func checkClass(of object: ManagedObject, at place: SourcePlace) {
        require(
            object is Object,
            "\(object.objectID) is a \(type(of: object)), not a \(Object.self); register the class "
                + "with the context.", at: place)
    }

    private func cacheKey() throws -> (state: QueryGenerationToken?, FetchedResultsCache.Key?) {
        guard cacheName != nil, let sectionNameKeyPath, !managedObjectContext.hasChanges else {
            return (nil, nil)
        }
        let state =
            try managedObjectContext.queryGenerationToken
            ?? managedObjectContext.persistentStoreCoordinator.currentToken
        return (
            state,
            FetchedResultsCache.Key(
                request: request, sectionNameKeyPath: sectionNameKeyPath,
                model: managedObjectContext.managedObjectModel.versionHash, state: state)
        )
    }

    /// Forgets the sections cached under a name. Usable from any thread.
    ///
    /// - Parameter name: The name; nil for all names.
    public static func deleteCache(withName name: String?) {
        FetchedResultsCache.shared.remove(name)
    }

    // MARK: Results

    /// The results in order; nil before the first fetch. To be used on the context's queue.
    public var fetchedObjects: [Object]? {
        managedObjectContext.confine()
        return results == nil ? nil : list
    }

    /// Every object was checked when it came in.
    private var list: [Object] {
        if let objects { return objects }
        let list = results?.entries.compactMap { $0.object as? Object } ?? []
        objects = list
        return list
    }

    /// The sections in order; nil before the first fetch. Without a section key path there is one,
    /// named by the empty text. To be used on the context's queue.
    public var sections: [FetchedResultsSectionInfo<Object>]? {
        managedObjectContext.confine()
        return results?.sections.map { info(of: $0.name, list[$0.range]) }
    }

    private func info(
        of name: String, _ objects: some Sequence<Object>
    ) -> FetchedResultsSectionInfo<Object> {
        FetchedResultsSectionInfo(
            name: name, indexTitle: indexTitle(of: name), objects: Array(objects))
    }

    /// The object at a place. To be used on the context's queue.
    ///
    /// - Precondition: There is such a place; ``performFetch(file:line:)`` was called before.
    public func object(
        at indexPath: FetchedResultsIndexPath, file: StaticString = #fileID, line: UInt = #line
    ) -> Object {
        let place = SourcePlace(file, line)
        managedObjectContext.confine("object(at:)", at: place)
        guard let results, results.sections.indices.contains(indexPath.section) else {
            misuse(
                "A controller of \(request.entityName) has no section \(indexPath.section), but "
                    + "\(results?.sections.count ?? 0) sections.", at: place)
        }
        let section = results.sections[indexPath.section]
        guard (0..<section.count).contains(indexPath.item),
            let object = results.entries[section.start + indexPath.item].object as? Object
        else {
            misuse(
                "A controller of \(request.entityName) has no item \(indexPath.item) in section "
                    + "\(indexPath.section), but \(section.count) items.", at: place)
        }
        return object
    }

    /// The place of an object; nil if it is none of the results. To be used on the context's queue.
    public func indexPath(for object: Object) -> FetchedResultsIndexPath? {
        managedObjectContext.confine()
        guard let results, let entry = results.entry(of: object) else { return nil }
        return results.sections.path(of: results.position(of: entry))
    }

    // MARK: The index

    /// The title of a section in the index: what the delegate gives, else the name's first character in
    /// upper case. To be used on the context's queue.
    ///
    /// - Returns: the title; nil for none.
    public func sectionIndexTitle(forSectionName sectionName: String) -> String? {
        managedObjectContext.confine()
        return indexTitle(of: sectionName)
    }

    private func indexTitle(of name: String) -> String? {
        guard let delegate = currentDelegate else { return SectionName.indexTitle(name) }
        return delegate.controller(self, sectionIndexTitleForSectionName: name)
    }

    /// The titles of all sections in order, each once. To be used on the context's queue.
    public var sectionIndexTitles: [String] {
        managedObjectContext.confine()
        var known = Set<PropertyValue>()
        return (results?.sections ?? []).compactMap { indexTitle(of: $0.name) }.filter {
            known.insert(.string($0)).inserted
        }
    }

    /// The first section with a title of the index. To be used on the context's queue.
    ///
    /// - Parameters:
    ///   - title: A title of ``sectionIndexTitles``.
    ///   - index: Its place there.
    /// - Precondition: The title is in that place.
    public func section(
        forSectionIndexTitle title: String, at index: Int, file: StaticString = #fileID,
        line: UInt = #line
    ) -> Int {
        let place = SourcePlace(file, line)
        managedObjectContext.confine("section(forSectionIndexTitle:at:)", at: place)
        let titles = sectionIndexTitles
        guard titles.indices.contains(index), titles[index].utf8.elementsEqual(title.utf8),
            let section = results?.sections.firstIndex(where: {
                indexTitle(of: $0.name)?.utf8.elementsEqual(title.utf8) ?? false
            })
        else {
            misuse(
                "A controller of \(request.entityName) has no title \"\(title)\" at \(index) of its "
                    + "index.", at: place)
        }
        return section
    }
}

// MARK: Following

extension FetchedResultsController: LiveQuery {
    func follow(_ touches: LiveTouches) {
        guard let results else { return }
        guard let delegate = currentDelegate else { return results.fallBehind() }
        let update: LiveUpdate
        isReporting = true
        defer { isReporting = false }
        do {
            update = try results.update(touches) { delegate.controllerWillChangeContent(self) }
            failure = nil
        } catch {
            let error =
                error as? CoordinatorError ?? CoordinatorError(.inputOutput, "\(error)")
            failure = error
            return delegate.controller(self, didFailWith: error)
        }
        objects = nil
        if update.isEmpty { return }
        report(update, to: delegate)
    }

    private func report(_ update: LiveUpdate, to delegate: any FetchedResultsControllerDelegate) {
        for (sections, type) in [
            (update.deletedSections, FetchedResultsChangeType.delete),
            (update.insertedSections, .insert),
        ] {
            for section in sections {
                delegate.controller(
                    self,
                    didChange: info(
                        of: section.section.name, section.objects.compactMap { $0 as? Object }),
                    atSectionIndex: section.index, for: type)
            }
        }
        for change in update.objects {
            checkClass(of: change.object, at: place)
            guard let object = change.object as? Object else { continue }
            delegate.controller(
                self, didChange: object, at: change.from, for: change.kind, newIndexPath: change.to)
        }
        delegate.controllerDidChangeContent(self)
    }
}
