import Coordinator
import Merge

extension TestStore {
    /// A fetch of an entity, with a predicate, one sort key (descending after `-`), and a page.
    func request(
        _ entity: String, where format: String? = nil, sort: String? = nil, limit: Int = 0,
        offset: Int = 0
    ) throws -> FetchRequest {
        FetchRequest(
            entity, predicate: try format.map { try Predicate(format: $0) },
            sortDescriptors: sort.map { [SortDescriptor(text: $0)] } ?? [], fetchLimit: limit,
            fetchOffset: offset)
    }

    /// Pins a context to the newest generation, by a first read.
    func pin(_ context: ManagedObjectContext) throws {
        try context.performAndWait {
            context.setQueryGeneration(from: .current)
            _ = try context.count(for: request("Item"))
        }
    }
}
