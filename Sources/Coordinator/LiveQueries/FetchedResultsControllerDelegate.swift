/// A place in the results of a ``FetchedResultsController``: section and item, both from 0. As
/// NSIndexPath with a section and an item.
public struct FetchedResultsIndexPath: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The section.
    public var section: Int
    /// The place within the section.
    public var item: Int

    /// Names a place.
    public init(section: Int, item: Int) {
        self.section = section
        self.item = item
    }

    /// Orders by section, then item.
    public static func < (left: Self, right: Self) -> Bool {
        (left.section, left.item) < (right.section, right.item)
    }

    /// `section.item`, such as `0.12`.
    public var description: String { "\(section).\(item)" }
}

/// The kinds of changes that a ``FetchedResultsController`` reports.
public enum FetchedResultsChangeType: String, Hashable, Sendable, CaseIterable {
    /// An object or a section came in.
    case insert
    /// An object or a section went out.
    case delete
    /// An object's sort keys changed, or its place among the others did.
    case move
    /// Other properties of an object changed.
    case update

    /// The order of reports within an event.
    var rank: Int {
        switch self {
        case .delete: 0
        case .insert: 1
        case .move: 2
        case .update: 3
        }
    }
}

/// A section of the results, as it was when it was asked for or reported.
public struct FetchedResultsSectionInfo<Object: ManagedObject> {
    /// The text of the objects' value at the section key path. Empty if there is none, or no such
    /// path.
    public let name: String
    /// The title in the index; nil if the delegate gives none.
    public let indexTitle: String?
    /// The section's objects in order. They belong to the context's queue.
    public let objects: [Object]

    /// How many objects it has.
    public var numberOfObjects: Int { objects.count }
}

/// Hears of changes of a ``FetchedResultsController``'s results. All methods have a default that
/// does nothing.
///
/// The methods are called on the context's queue, at the end of each event that changes the results
/// or a property of one. The first is `controllerWillChangeContent`, while the results are the old
/// ones. Sections, objects and `controllerDidChangeContent` follow, with the new results.
/// Old places are places before the event, new ones are after it. To follow, take all objects
/// that are deleted or moved out of their old places and remove deleted sections. Then insert new
/// sections, and put objects that are inserted or moved to their new places in ascending order.
///
/// A method may change objects and save; what it changes is reported in a round of its own. It must
/// not call ``FetchedResultsController/performFetch(file:line:)``.
public protocol FetchedResultsControllerDelegate: AnyObject {
    /// The title of a section in the index. By default the name's first character in upper case.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - sectionName: The section's name.
    /// - Returns: the title; nil for none.
    func controller<Object>(
        _ controller: FetchedResultsController<Object>,
        sectionIndexTitleForSectionName sectionName: String
    ) -> String?

    /// The results are about to change.
    func controllerWillChangeContent<Object>(_ controller: FetchedResultsController<Object>)

    /// A section came or went.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - section: The section with its objects: of a deleted one those before the event.
    ///   - index: Its old place if it was deleted, its new one if it was inserted.
    ///   - type: `insert` or `delete`.
    func controller<Object>(
        _ controller: FetchedResultsController<Object>,
        didChange section: FetchedResultsSectionInfo<Object>, atSectionIndex index: Int,
        for type: FetchedResultsChangeType)

    /// An object came or went, moved or changed.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - object: The object.
    ///   - indexPath: Its old place; nil for an insert.
    ///   - type: The kind of change. A move includes an update, and can lead to the same place.
    ///   - newIndexPath: Its new place; nil for a delete.
    func controller<Object>(
        _ controller: FetchedResultsController<Object>, didChange object: Object,
        at indexPath: FetchedResultsIndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: FetchedResultsIndexPath?)

    /// All changes of the event were reported.
    func controllerDidChangeContent<Object>(_ controller: FetchedResultsController<Object>)

    /// The results could not follow an event, because reading the store failed. They stay as they
    /// were, and follow at the next event.
    ///
    /// - Parameters:
    ///   - controller: The controller.
    ///   - error: The failure.
    func controller<Object>(
        _ controller: FetchedResultsController<Object>, didFailWith error: CoordinatorError)
}

extension FetchedResultsControllerDelegate {
    /// Does nothing.
    public func controllerWillChangeContent<Object>(
        _ controller: FetchedResultsController<Object>
    ) {}

    /// Does nothing.
    public func controller<Object>(
        _ controller: FetchedResultsController<Object>,
        didChange section: FetchedResultsSectionInfo<Object>, atSectionIndex index: Int,
        for type: FetchedResultsChangeType
    ) {}

    /// Does nothing.
    public func controller<Object>(
        _ controller: FetchedResultsController<Object>, didChange object: Object,
        at indexPath: FetchedResultsIndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: FetchedResultsIndexPath?
    ) {}

    /// Does nothing.
    public func controllerDidChangeContent<Object>(
        _ controller: FetchedResultsController<Object>
    ) {}

    /// Does nothing.
    public func controller<Object>(
        _ controller: FetchedResultsController<Object>, didFailWith error: CoordinatorError
    ) {}

    /// The name's first character in upper case; nil of an empty name.
    public func controller<Object>(
        _ controller: FetchedResultsController<Object>,
        sectionIndexTitleForSectionName sectionName: String
    ) -> String? {
        SectionName.indexTitle(sectionName)
    }
}

extension SectionName {
    static func indexTitle(_ name: String) -> String? { name.first.map { $0.uppercased() } }
}
