// The differences between two stores that have seen the same saves.

import Console
import Coordinator
import Merge

/// The outcome of comparing two stores at equal vectors (DESIGN section 7: a difference of digests
/// is narrowed down to entity and rows).
struct StoreComparison {
    /// The differences in one object.
    struct Difference {
        let id: String
        /// The property; nil where one side does not show the object at all, or calls it in
        /// conflict.
        let property: String?
        let here: String
        let there: String
        let json: JSONValue
    }

    /// Whether both show the same.
    let isSame: Bool
    /// The differences, by object and property, of the first ``limit`` objects.
    var differences: [Difference] = []
    /// How many objects differ.
    var count = 0

    /// The most objects with their differences listed.
    static let limit = 100

    /// Compares two nodes or files.
    ///
    /// All objects are read from both, hierarchy by hierarchy, and of those of one side identities
    /// and hashes are kept meanwhile, unless the digests say that there is nothing to find.
    ///
    /// - Parameter areSound: whether both stores hold what their digests were kept of.
    /// - Throws: ``CommandFailure`` where they have different models, or come not to have seen the
    ///   same saves within ten seconds, so that nothing can be said.
    static func compare(
        _ here: any ClientInterface, _ there: any ClientInterface, areSound: Bool
    ) async throws -> StoreComparison {
        let model = try await here.get("/v1/model").json
        guard try await there.get("/v1/model").json == model else {
            throw CommandFailure(
                .mismatch,
                "\(here.name) and \(there.name) have different models, and so are not compared.")
        }
        // Nodes catch up with each other; files do not.
        let attempts = here is StoreInterface && there is StoreInterface ? 1 : 10
        for attempt in 1... {
            let one = try await ComparedStore(pinning: here)
            let other: ComparedStore
            do {
                other = try await ComparedStore(pinning: there)
            } catch {
                await one.release()
                throw error
            }
            let outcome: Result<StoreComparison?, any Error>
            do {
                outcome = .success(
                    one.vector == other.vector
                        ? try await compare(
                            one, other, areSound: areSound,
                            entities: try ManagedObjectModel(json: model).entities)
                        : nil)
            } catch { outcome = .failure(error) }
            await one.release()
            await other.release()
            if let comparison = try outcome.get() { return comparison }
            if attempt >= attempts {
                throw CommandFailure(
                    .failed,
                    """
                    \(here.name) and \(there.name) have not seen the same saves, so they are not \
                    compared: \(one.lacks(of: other)) are missing in the first, \
                    \(other.lacks(of: one)) in the second. Try again while nobody saves.
                    """)
            }
            try await Task.sleep(for: .seconds(1))
        }
        fatalError("The attempts have an end.")
    }

    private static func compare(
        _ here: ComparedStore, _ there: ComparedStore, areSound: Bool,
        entities: [ManagedObjectModel.Entity]
    ) async throws -> StoreComparison {
        var comparison = StoreComparison(isSame: areSound && here.digest == there.digest)
        if comparison.isSame { return comparison }
        for entity in entities where entity.parent == nil {
            var hashes: [RowID: UInt64] = [:]
            var different = Set<RowID>()
            try await here.read(entity.name) { hashes[$0] = $1.hash }
            try await there.read(entity.name) { row, object in
                if hashes.removeValue(forKey: row) != object.hash { different.insert(row) }
            }
            different.formUnion(hashes.keys)
            let wanted = Set(different.sorted().prefix(max(0, limit - comparison.count)))
            comparison.count += different.count
            if wanted.isEmpty { continue }
            var (ours, theirs): ([RowID: ComparedObject], [RowID: ComparedObject]) = ([:], [:])
            try await here.read(entity.name) { if wanted.contains($0) { ours[$0] = $1 } }
            try await there.read(entity.name) { if wanted.contains($0) { theirs[$0] = $1 } }
            for row in wanted.sorted() {
                comparison.differences += Self.differences(ours[row], theirs[row])
            }
        }
        return comparison
    }

    /// The differences between two sides of one object; nil if one side does not show it.
    static func differences(_ here: ComparedObject?, _ there: ComparedObject?) -> [Difference] {
        guard let here, let there, here.id == there.id else {
            // A row is of one entity for good; where it is not, it counts as two objects.
            return [here.map { whole($0, isHere: true) }, there.map { whole($0, isHere: false) }]
                .compactMap(\.self)
        }
        var differences: [Difference] = []
        if here.isConflicted != there.isConflicted {
            differences.append(
                Difference(
                    id: here.id, property: nil, here: here.isConflicted ? "in conflict" : "",
                    there: there.isConflicted ? "in conflict" : "",
                    json: [
                        "id": .string(here.id), "property": .null,
                        "here": ["conflicted": .boolean(here.isConflicted)],
                        "there": ["conflicted": .boolean(there.isConflicted)],
                    ]))
        }
        for (ours, theirs) in zip(here.properties, there.properties) where ours != theirs {
            differences.append(
                Difference(
                    id: here.id, property: ours.name, here: ours.shown.text,
                    there: theirs.shown.text,
                    json: [
                        "id": .string(here.id), "property": .string(ours.name),
                        "here": ours.shown.json, "there": theirs.shown.json,
                    ]))
        }
        return differences
    }

    private static func whole(_ object: ComparedObject, isHere: Bool) -> Difference {
        let shown: JSONValue = ["conflicted": .boolean(object.isConflicted)]
        return Difference(
            id: object.id, property: nil, here: isHere ? "only here" : "",
            there: isHere ? "" : "only there",
            json: [
                "id": .string(object.id), "property": .null, "here": isHere ? shown : .null,
                "there": isHere ? .null : shown,
            ])
    }
}
