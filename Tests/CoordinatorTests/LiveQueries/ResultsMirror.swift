import Coordinator

/// A delegate that notes what it hears, and keeps a table of its own by it.
final class ResultsMirror: FetchedResultsControllerDelegate {
    /// The calls, such as "move b 0.1 > 1.0", objects by their `p` or `name`.
    private(set) var log: [String] = []
    /// The sections with their objects, as the reports have made them.
    private(set) var sections: [(name: String, objects: [ManagedObject])] = []
    /// What was wrong with the reports.
    private(set) var faults: [String] = []
    /// Whether calls are noted in ``log``.
    var isLogging = true
    /// Done once within the next event.
    var onChange: (() -> Void)?

    private var isChanging = false
    private var deletedSections: [Int] = []
    private var insertedSections: [(index: Int, name: String)] = []
    private var left: [FetchedResultsIndexPath] = []
    private var arrived: [(path: FetchedResultsIndexPath, object: ManagedObject)] = []

    /// Takes over what a controller has now.
    func copy<Object>(_ controller: FetchedResultsController<Object>) {
        sections = (controller.sections ?? []).map { ($0.name, $0.objects) }
    }

    func takeLog() -> [String] {
        defer { log = [] }
        return log
    }

    private func note(_ text: @autoclosure () -> String) {
        if isLogging { log.append(text()) }
    }

    static func name(_ object: ManagedObject) -> String {
        let key = object.entity.name == "Item" ? "p" : "name"
        let name: String? = object.isDeleted ? nil : object[key]
        return name ?? "-"
    }

    func controllerWillChangeContent<Object>(_ controller: FetchedResultsController<Object>) {
        note("will")
        if isChanging { faults.append("will change twice") }
        let old = (controller.sections ?? []).map(\.objects)
        if !old.elementsEqual(sections.map(\.objects), by: { $0.elementsEqual($1, by: ===) }) {
            faults.append("the contents changed before the call")
        }
        isChanging = true
        (deletedSections, insertedSections, left, arrived) = ([], [], [], [])
    }

    func controller<Object>(
        _ controller: FetchedResultsController<Object>,
        didChange section: FetchedResultsSectionInfo<Object>, atSectionIndex index: Int,
        for type: FetchedResultsChangeType
    ) {
        note("section \(type.rawValue) \(section.name) \(index)")
        if !left.isEmpty || !arrived.isEmpty { faults.append("sections after objects") }
        if type == .delete {
            deletedSections.append(index)
            if !section.objects.elementsEqual(sections[index].objects, by: ===) {
                faults.append("a deleted section has other objects")
            }
        } else {
            insertedSections.append((index, section.name))
        }
    }

    func controller<Object>(
        _ controller: FetchedResultsController<Object>, didChange object: Object,
        at indexPath: FetchedResultsIndexPath?, for type: FetchedResultsChangeType,
        newIndexPath: FetchedResultsIndexPath?
    ) {
        note(
            [
                type.rawValue, Self.name(object), indexPath?.description ?? "-", ">",
                newIndexPath?.description ?? "-",
            ].joined(separator: " "))
        if (indexPath == nil) != (type == .insert) { faults.append("old place of \(type)") }
        if (newIndexPath == nil) != (type == .delete) { faults.append("new place of \(type)") }
        if let indexPath { left.append(indexPath) }
        if let newIndexPath { arrived.append((newIndexPath, object)) }
        if let newIndexPath, controller.object(at: newIndexPath) !== object {
            faults.append("another object is at \(newIndexPath)")
        }
        onChange?()
        onChange = nil
    }

    func controllerDidChangeContent<Object>(_ controller: FetchedResultsController<Object>) {
        note("did")
        isChanging = false
        for path in left.sorted().reversed() {
            sections[path.section].objects.remove(at: path.item)
        }
        for index in deletedSections.sorted().reversed() {
            if !sections[index].objects.isEmpty { faults.append("a deleted section has rows") }
            sections.remove(at: index)
        }
        for (index, name) in insertedSections.sorted(by: { $0.index < $1.index }) {
            sections.insert((name, []), at: index)
        }
        for (path, object) in arrived.sorted(by: { $0.path < $1.path }) {
            sections[path.section].objects.insert(object, at: path.item)
        }
    }

    func controller<Object>(
        _ controller: FetchedResultsController<Object>, didFailWith error: CoordinatorError
    ) {
        note("failed \(error.code.rawValue)")
    }
}
