// What a request to a store's file asks: the path taken apart, and a fetch read from JSON.

import Console
import Coordinator

/// A path of ``RequestPath``, taken apart again.
struct StoreRequest {
    /// The segments after `/v1`, decoded.
    let segments: [String]
    private let parameters: [(name: String, value: String)]

    init(_ path: String) {
        let halves = path.split(separator: "?", maxSplits: 1)
        segments = (halves.first ?? "").split(separator: "/").dropFirst().map(Self.decode)
        parameters = (halves.count == 2 ? halves[1] : "").split(separator: "&").map { part in
            let sides = part.split(separator: "=", maxSplits: 1)
            return (Self.decode(sides[0]), sides.count == 2 ? Self.decode(sides[1]) : "")
        }
    }

    subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// A count of at least one, within a node's bounds; nil where the parameter is absent.
    ///
    /// - Throws: ``CommandFailure`` with `usage` for anything else.
    func count(_ name: String) throws -> Int? {
        guard let text = self[name] else { return nil }
        guard text.utf8.count <= 10, let number = Int(text), number >= 1 else {
            throw CommandFailure.usage(
                "--\(name) must be an integer of at least 1, of at most ten digits.")
        }
        return number
    }

    /// A token; nil where the parameter is absent.
    ///
    /// - Throws: ``CommandFailure`` with `usage` for anything else.
    func token(_ name: String) throws -> QueryGenerationToken? {
        guard let text = self[name] else { return nil }
        guard let token = QueryGenerationToken(text: text) else {
            throw CommandFailure.noToken(name)
        }
        return token
    }

    private static func decode(_ text: Substring) -> String {
        var bytes: [UInt8] = []
        var iterator = text.utf8.makeIterator()
        while let byte = iterator.next() {
            guard byte == UInt8(ascii: "%"), let high = iterator.next(), let low = iterator.next(),
                let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(value)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A fetch of the client interface as this program writes it.
struct StoreFetch {
    var request: FetchRequest
    let entity: ManagedObjectModel.Entity
    var properties: [String]?
    var includesVersions: Bool
    /// The token of the only generation that may be read; nil for any.
    var generation: String?
    /// A token whose changes must be there; nil for none.
    var after: QueryGenerationToken?

    /// - Throws: ``CommandFailure`` for names the model does not have; ``PredicateError``.
    init(_ json: JSONValue, model: ManagedObjectModel) throws {
        let fields = json.object ?? JSONObject()
        let name = fields["entity"]?.string ?? ""
        guard let entity = model.entity(named: name) else {
            throw CommandFailure.noEntity(name, in: model)
        }
        self.entity = entity
        request = FetchRequest(name)
        request.resultType =
            fields["resultType"]?.string.flatMap { .init(rawValue: $0) } ?? .objects
        if let text = fields["predicate"]?.string {
            var substitutions: [String: PredicateValue] = [:]
            for member in fields["substitutions"]?.object?.members ?? [] {
                do {
                    substitutions[member.key] = try PredicateValue(json: member.value)
                } catch { throw CommandFailure.usage("--substitution \(member.key): \(error).") }
            }
            request.predicate = try Predicate(format: text, substitutions: substitutions)
        }
        request.sortDescriptors = (fields["sort"]?.array ?? []).compactMap {
            $0.string.map { SortDescriptor(text: $0) }
        }
        request.fetchLimit = Int(fields["limit"]?.integer ?? 0)
        request.fetchOffset = Int(fields["offset"]?.integer ?? 0)
        properties = fields["properties"]?.array?.compactMap(\.string)
        for name in properties ?? []
        where entity.position(of: name) == nil && entity.relationship(named: name) == nil {
            throw CommandFailure.usage("\(entity.name) has no property \(name).")
        }
        includesVersions = fields["versions"]?.boolean ?? false
        generation = fields["generation"]?.string
        if let text = fields["after"]?.string {
            guard let token = QueryGenerationToken(text: text) else {
                throw CommandFailure.noToken("after")
            }
            after = token
        }
    }
}

extension CommandFailure {
    /// The model has no such entity.
    static func noEntity(_ name: String, in model: ManagedObjectModel) -> Self {
        let known = model.entities.map(\.name).joined(separator: ", ")
        return usage("There is no entity \(name); there are \(known).")
    }

    /// A flag's value is no token.
    static func noToken(_ flag: String) -> Self {
        usage("--\(flag) must be a token as `tributary fetch --json` and `history` give them.")
    }
}
