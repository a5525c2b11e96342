import Coordinator
import Merge

/// What a node answered to one question for an entity, with the vector that the answer names.
struct Reading: Sendable, CustomStringConvertible {
    enum Content: Hashable, Sendable {
        /// All objects of the entity, as they were written.
        case objects([JSONObject])
        case count(Int64)
    }

    let node: Int
    let entity: String
    /// What the node had applied at the generation that was read.
    let vector: VersionVector
    let content: Content

    init(node: Int, entity: String, vector: VersionVector, content: Content) {
        self.node = node
        self.entity = entity
        self.vector = vector
        self.content = content
    }

    /// Reads an answer of `POST /v1/fetch`; nil where it is none.
    init?(node: Int, entity: String, _ answer: JSONObject) {
        guard let vector = VersionVector(json: answer["vector"]) else { return nil }
        let content: Content
        if let count = answer["count"]?.integer {
            content = .count(count)
        } else if let objects = answer["objects"]?.array {
            content = .objects(objects.compactMap(\.object))
        } else {
            return nil
        }
        self.init(node: node, entity: entity, vector: vector, content: content)
    }

    /// What is asked for all objects of an entity, or for how many there are.
    ///
    /// - Parameter generation: the token of a pinned one; nil for the current.
    static func question(
        _ entity: String, isCount: Bool = false, generation: String? = nil
    ) -> JSONValue {
        var request: JSONObject = ["entity": .string(entity), "versions": .boolean(false)]
        if isCount { request["resultType"] = "count" }
        if let generation { request["generation"] = .string(generation) }
        return .object(request)
    }

    var description: String { "node \(node), \(entity) at \(vector.text)" }
}

/// One pinned generation, read twice.
struct PinnedReading: Sendable {
    /// What the pin said that it holds.
    let vector: VersionVector
    let first: Reading
    /// The answer to the same question, some time later.
    let second: Reading
}

extension VersionVector {
    /// Reads a vector as the client interface writes it; nil where it is none.
    init?(json: JSONValue?) {
        guard let members = json?.object?.members else { return nil }
        self.init()
        for member in members {
            guard let actor = ActorID(member.key), let sequence = member.value.integer,
                sequence > 0
            else { return nil }
            advance(actor, to: UInt64(sequence))
        }
    }

    /// The last dot of each actor.
    var text: String {
        "[\(entries.map { "\($0.actor)-\($0.sequence)" }.joined(separator: " "))]"
    }
}
