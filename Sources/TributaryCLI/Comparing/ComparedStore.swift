// One of two stores that are compared: what it shows at one generation.

import Console
import Coordinator
import Merge

/// A generation of a node or of a store's file, from which objects are read for comparison.
struct ComparedStore {
    let interface: any ClientInterface
    /// How many saves of each incarnation it has seen.
    let vector: [String: Int64]
    let digest: String
    private let token: String

    /// Pins what the interface shows now; to be released.
    init(pinning interface: any ClientInterface) async throws {
        // The other side's objects are read meanwhile, however many there are.
        let answer = try await interface.post("/v1/generations", ["leaseSeconds": .integer(3_600)])
        self.interface = interface
        token = answer.json.object?["token"]?.string ?? ""
        digest = answer.json.object?["digest"]?.string ?? ""
        var vector: [String: Int64] = [:]
        for entry in answer.json.object?["vector"]?.object?.members ?? [] {
            vector[entry.key] = entry.value.integer
        }
        self.vector = vector
    }

    /// Gives the generation up. What cannot be released ends with its lease.
    func release() async {
        let path = RequestPath("generations", token).description
        _ = try? await interface.request("DELETE", path, nil)
    }

    /// How many saves it has not seen that another has.
    func lacks(of other: ComparedStore) -> Int64 {
        other.vector.reduce(0) { $0 + max(0, $1.value - (vector[$1.key] ?? 0)) }
    }

    /// Reads the objects of an entity and of those that inherit from it.
    func read(
        _ entity: String, _ receive: (RowID, ComparedObject) async throws -> Void
    ) async throws {
        let body: JSONObject = [
            "entity": .string(entity), "versions": .boolean(true), "generation": .string(token),
        ]
        try await interface.fetchLines(.object(body)) { line in
            guard let object = ComparedObject(line) else {
                throw CommandFailure(.failed, "\(interface.name) gave an object without its ID.")
            }
            try await receive(object.row, object)
        }
    }
}

/// One store's view of one object, as far as equal stores must show the same: siblings that a
/// collapse may have removed on one node alone are left out.
struct ComparedObject {
    /// A property's value, and the transaction whose write it is.
    struct Shown: Equatable {
        let value: JSONValue
        let dot: String?

        var text: String { JSONRendering.brief(value) + (dot.map { " by \($0)" } ?? "") }

        var json: JSONValue { ["value": value, "dot": dot.map { .string($0) } ?? .null] }
    }

    let row: RowID
    let id: String
    let isConflicted: Bool
    let properties: [(name: String, shown: Shown)]

    /// Reads an object as a fetch with versions writes it; nil where it is none.
    init?(_ line: JSONObject) {
        guard let id = line["id"]?.string, let uri = ObjectURI(id) else { return nil }
        self.id = id
        row = uri.row
        isConflicted = line["conflicted"]?.boolean ?? false
        let versions = line["versions"]?.object
        properties = (line["values"]?.object?.members ?? []).map { member in
            let dot = versions?[member.key]?.object?["dot"]?.string
            return (member.key, Shown(value: member.value, dot: dot))
        }.sorted { $0.0 < $1.0 }
    }

    /// Stands for all of it where many are compared.
    var hash: UInt64 {
        var hasher = StableHasher()
        hasher.combine(id)
        hasher.combine(isConflicted ? 1 : 0)
        for property in properties {
            hasher.combine(property.name)
            hasher.combine(JSONWriter.text(of: property.shown.value))
            hasher.combine(property.shown.dot ?? "")
        }
        return hasher.finalize().0
    }
}
