// What a request to a store's file asks: the path taken apart, and a fetch read from JSON.

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

    func integer(_ name: String) -> Int? { self[name].flatMap { Int($0) } }

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

    /// - Throws: ``CommandFailure`` for names the model does not have; ``PredicateError``.
    init(_ json: JSONValue, model: ManagedObjectModel) throws {
        let fields = json.object ?? JSONObject()
        let name = fields["entity"]?.string ?? ""
        guard let entity = model.entity(named: name) else {
            let known = model.entities.map(\.name).joined(separator: ", ")
            throw CommandFailure.usage("There is no entity \(name); there are \(known).")
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
    }
}
