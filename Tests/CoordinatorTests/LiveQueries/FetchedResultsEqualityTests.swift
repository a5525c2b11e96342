import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

/// After each random step a controller has what a fetch gives, in sections that follow from it, and
/// a table that only heard the reports has the same.
@Suite("Fetched results equal a fetch") struct FetchedResultsEqualityTests {
    struct Fixture: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var entity = "Item"
        var predicate: String?
        let sort: [String]
        var sections: String?
        var limit = 0
        var offset = 0
        /// Whether the context reads a generation, and merges only now and then.
        var isPinned = false
        let steps: Int

        func request() throws -> FetchRequest {
            FetchRequest(
                entity, predicate: try predicate.map { try Predicate(format: $0) },
                sortDescriptors: sort.map { SortDescriptor(text: $0) }, fetchLimit: limit,
                fetchOffset: offset)
        }
    }

    static let fixtures = [
        Fixture(testDescription: "sections", sort: ["p", "n"], sections: "p", steps: 2_500),
        Fixture(
            testDescription: "sections of a pinned context", predicate: "n < 4", sort: ["-p", "q"],
            sections: "p", isPinned: true, steps: 2_000),
        Fixture(
            testDescription: "a condition through a to-one",
            predicate: "owner.name == 'a' OR owner == nil", sort: ["-n", "p"], steps: 1_500),
        Fixture(
            testDescription: "sections through a to-one", predicate: "n > 0",
            sort: ["owner.name", "n"], sections: "owner.name", steps: 1_500),
        Fixture(
            testDescription: "a condition and an order through a to-many", entity: "Person",
            predicate: "ANY items.p < 'c' OR items.@count == 0", sort: ["items.@count", "name"],
            steps: 1_000),
        Fixture(
            testDescription: "a condition through a many-to-many of a pinned context",
            predicate: "ANY tags.name == 'a' OR tags.@count == 0", sort: ["p"], isPinned: true,
            steps: 750),
        Fixture(
            testDescription: "a limit and an offset", sort: ["n", "p"], sections: "n", limit: 7,
            offset: 2, steps: 750),
    ]

    @Test("Results, sections and reports agree with a fetch after every step", arguments: fixtures)
    func equality(_ fixture: Fixture) throws {
        #expect(Self.fixtures.map(\.steps).reduce(0, +) == 10_000)
        let world = try RandomGraph(fixture)
        for step in 0..<fixture.steps {
            try world.step()
            if let fault = try world.fault() {
                Issue.record("\(fixture.testDescription), step \(step), \(world.story): \(fault)")
                return
            }
        }
        #expect(world.reports > fixture.steps / 10)
    }
}

/// A store, a context with a controller, another context and another node that all change objects.
final class RandomGraph {
    private let store: TestStore
    private let remote: TestStore
    private let context: ManagedObjectContext
    private let other: ManagedObjectContext
    private let controller: FetchedResultsController<ManagedObject>
    private let mirror = ResultsMirror()
    private let fixture: FetchedResultsEqualityTests.Fixture
    private let commits = Commits()
    private let observation: CommitObservation
    private var random = SeededGenerator(seed: 17)
    /// What the last step did.
    private(set) var story: [String] = []
    private(set) var reports = 0

    private final class Commits: Sendable {
        let waiting = Mutex<[ContextDidSave]>([])
    }

    init(_ fixture: FetchedResultsEqualityTests.Fixture) throws {
        self.fixture = fixture
        store = try TestStore(options: Self.options(1))
        remote = try TestStore(node: 2, options: Self.options(2))
        context = store.context(.mergeByPropertyObjectTrump)
        other = store.context(.mergeByPropertyObjectTrump)
        observation = store.coordinator.observeCommits { [commits] notice in
            commits.waiting.withLock { $0.append(ContextDidSave(notice)) }
        }
        controller = FetchedResultsController(
            fetchRequest: try fixture.request(), managedObjectContext: context,
            sectionNameKeyPath: fixture.sections)
        try store.save { context in
            for name in ["a", "b", "c"] {
                context.insert("Person", ["name": name])
                context.insert("Tag", ["name": name])
            }
        }
        for _ in 0..<10 { try store.save { change(.insertItem, in: $0) } }
        try context.performAndWait {
            if fixture.isPinned { context.setQueryGeneration(from: .current) }
            controller.delegate = mirror
            try controller.performFetch()
            mirror.copy(controller)
        }
        commits.waiting.withLock { $0 = [] }
    }

    /// Clocks and numbers that are the same in each run: the IDs of objects follow from them.
    private static func options(_ seed: UInt64) -> PersistentStoreCoordinator.Options {
        final class Clock: Sendable {
            let time = Mutex<UInt64>(1_000_000)
            let random: Mutex<SeededGenerator>
            init(_ seed: UInt64) { random = Mutex(SeededGenerator(seed: seed)) }
        }
        let clock = Clock(seed)
        var options = PersistentStoreCoordinator.Options()
        options.random = { clock.random.withLock { $0.next() } }
        options.wallMilliseconds = {
            clock.time.withLock { time in
                time += 1
                return time
            }
        }
        return options
    }

    // MARK: Changes

    private enum Change: String, CaseIterable {
        case edit, editMore, own, rename, insertItem, insertPerson, deleteItem, deletePerson, tag
    }

    private func pick(_ entity: String, _ context: ManagedObjectContext) -> ManagedObject? {
        var ids: [ManagedObjectID]
        if context === self.context, random.chance(75) {
            ids = context.registeredObjects.filter { $0.entity.name == entity && !$0.isDeleted }
                .map(\.objectID).sorted()
        } else {
            // Also of rows that the context has no object of.
            var request = FetchRequest(entity)
            request.includesPendingChanges = false
            ids = (try? context.fetchObjectIDs(request)) ?? []
        }
        return ids.isEmpty ? nil : context.object(with: random.pick(ids))
    }

    private func count(_ entity: String, _ context: ManagedObjectContext) -> Int {
        var request = FetchRequest(entity)
        request.includesPendingChanges = false
        return (try? context.count(for: request)) ?? 0
    }

    private func letter() -> String { random.pick(["a", "b", "c", "d"]) }

    private func change(in context: ManagedObjectContext) {
        let weighted: [Change] = [
            .edit, .edit, .edit, .editMore, .editMore, .own, .own, .rename, .insertItem,
            .insertItem,
            .insertPerson, .deleteItem, .deleteItem, .deletePerson, .tag, .tag,
        ]
        change(random.pick(weighted), in: context)
    }

    private func change(_ change: Change, in context: ManagedObjectContext) {
        story.append(change.rawValue)
        switch change {
        case .edit: pick("Item", context)?["p"] = random.chance(10) ? nil : letter()
        case .editMore:
            let item = pick("Item", context)
            if random.chance(60) {
                item?["n"] = Int64(random.below(6))
            } else {
                item?["q"] = letter()
            }
        case .own:
            let owner = random.chance(30) ? nil : pick("Person", context)
            pick("Item", context)?.setRelatedObject(owner, forKey: "owner")
        case .rename: pick("Person", context)?["name"] = letter()
        case .insertItem:
            guard count("Item", context) < 16 else { return self.change(.deleteItem, in: context) }
            let item = context.insert("Item", ["p": letter(), "n": Int64(random.below(6))])
            if random.chance(50) {
                item.setRelatedObject(pick("Person", context), forKey: "owner")
            }
        case .insertPerson:
            guard count("Person", context) < 6 else { return }
            context.insert("Person", ["name": letter()])
        case .deleteItem: if let item = pick("Item", context) { context.delete(item) }
        case .deletePerson:
            if count("Person", context) > 2, let person = pick("Person", context) {
                context.delete(person)
            }
        case .tag:
            guard let item = pick("Item", context), let tag = pick("Tag", context) else { return }
            if random.chance(60) {
                item.add(tag, toRelationship: "tags")
            } else {
                item.remove(tag, fromRelationship: "tags")
            }
        }
    }

    // MARK: Steps

    func step() throws {
        story = []
        switch random.below(100) {
        case 0..<55: context.performAndWait { for _ in 0...random.below(2) { change(in: context) } }
        case 55..<60:
            context.performAndWait {
                story.append("take back")
                let deleted = context.deletedObjects.sorted { $0.objectID < $1.objectID }
                if let object = deleted.first { context.insert(object) }
            }
        case 60..<70:
            try context.performAndWait {
                story.append("save")
                if random.chance(30) { change(in: context) }
                do { try context.save() } catch is CoordinatorError { context.rollback() }
                // A save takes a pinned context to the newest generation.
                mergeWaiting()
            }
        case 70..<74:
            context.performAndWait {
                story.append("rollback")
                if random.chance(30) { change(in: context) }
                context.rollback()
            }
        case 74..<79:
            context.performAndWait {
                story.append("refresh")
                let entity = random.pick(["Item", "Person"])
                guard let object = pick(entity, context) else { return }
                context.refresh(object, mergeChanges: random.chance(50))
            }
        case 79: context.performAndWait { context.refreshAllObjects() }
        case 80:
            story.append("reset")
            context.performAndWait { context.reset() }
        case 81..<93:
            try other.performAndWait {
                story.append("other context")
                other.reset()
                for _ in 0...random.below(2) { change(in: other) }
                do { try other.save() } catch is CoordinatorError {}
            }
        default:
            story.append("other node")
            try remote.take(from: store)
            try remote.save(.mergeByPropertyObjectTrump) {
                for _ in 0...random.below(2) { change(in: $0) }
            }
            try store.take(from: remote)
        }
        if !fixture.isPinned || random.chance(20) {
            context.performAndWait { mergeWaiting() }
        }
    }

    private func mergeWaiting() {
        let waiting = commits.waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        if !waiting.isEmpty { story.append("merge") }
        for changes in waiting { context.mergeChanges(fromContextDidSave: changes) }
    }

    // MARK: Checking

    /// What is wrong; nil for nothing.
    func fault() throws -> String? {
        try context.performAndWait {
            reports += mirror.takeLog().count
            if let fault = mirror.faults.first { return fault }
            let fresh = try context.fetch(controller.fetchRequest)
            guard let objects = controller.fetchedObjects, objects.elementsEqual(fresh, by: ===)
            else {
                return "results are \(text(controller.fetchedObjects ?? [])), not \(text(fresh))"
            }
            let sections = sections(of: fresh)
            let shown = (controller.sections ?? []).map { ($0.name, $0.objects) }
            guard isEqual(shown, sections) else {
                return "sections are \(text(shown)), not \(text(sections))"
            }
            guard isEqual(mirror.sections.map { ($0.name, $0.objects) }, sections) else {
                return "reports lead to \(text(mirror.sections)), not \(text(sections))"
            }
            for path in [0, objects.count - 1] where objects.indices.contains(path) {
                guard let place = controller.indexPath(for: objects[path]),
                    controller.object(at: place) === objects[path]
                else { return "object \(path) is not in its place" }
            }
            return nil
        }
    }

    private func sections(of objects: [ManagedObject]) -> [(String, [ManagedObject])] {
        guard let path = fixture.sections else { return [("", objects)] }
        var result: [(name: String, objects: [ManagedObject])] = []
        for object in objects {
            let names = path.split(separator: ".").map(String.init)
            var current: ManagedObject? = object
            for name in names.dropLast() { current = current?.relatedObject(forKey: name) }
            let value: PropertyValue = current?[names[names.count - 1]] ?? .null
            let name = SectionName.text(of: value)
            if result.last?.name == name {
                result[result.count - 1].objects.append(object)
            } else {
                result.append((name, [object]))
            }
        }
        return result
    }

    private func isEqual(
        _ left: [(String, [ManagedObject])], _ right: [(String, [ManagedObject])]
    ) -> Bool {
        left.elementsEqual(right) { $0.0 == $1.0 && $0.1.elementsEqual($1.1, by: ===) }
    }

    private func text(_ objects: [ManagedObject]) -> String {
        objects.map { "\(ResultsMirror.name($0)):\($0.objectID.row.rawValue % 1_000)" }
            .joined(separator: " ")
    }

    private func text(_ sections: [(String, [ManagedObject])]) -> String {
        sections.map { "[\($0.0)] \(text($0.1))" }.joined(separator: " ")
    }
}
