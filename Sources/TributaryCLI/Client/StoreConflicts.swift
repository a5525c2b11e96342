// The conflict journal of a store's file, as GET /v1/conflicts gives a node's.

import Console
import Coordinator
import Merge

extension StoreInterface {
    /// How far a list looks for what was there before the sides; the bounds are a node's. One
    /// conflict by itself is shown with what the whole log tells.
    private enum ListedBases {
        /// So many conflicts of a list come with them.
        static let conflicts = 100
        /// Transactions that are looked through for each conflict.
        static let transactions = 1_000
        /// Bytes of them.
        static let bytes = 1 << 20
    }

    /// The entries that are asked for, newest first.
    func conflicts(_ target: StoreRequest) throws -> JSONValue {
        var query = try conflictQuery(target)
        let limit = query.limit
        // Whether there is more is told by one more.
        query.limit += 1
        return try coordinator.read { reader in
            let encoder = encoder(reader)
            var listed: [JSONValue] = []
            var (last, next): (ConflictPlace?, ConflictPlace?) = (nil, nil)
            try reader.forEachConflict(query) { conflict, place in
                guard listed.count < limit else {
                    next = last
                    return false
                }
                let base =
                    try listed.count < ListedBases.conflicts
                    ? reader.base(
                        of: conflict, scanLimit: ListedBases.transactions,
                        byteLimit: ListedBases.bytes)
                    : nil
                listed.append(.object(encoder.conflict(conflict, base: base)))
                last = place
                return true
            }
            return [
                "conflicts": .array(listed),
                "next": next.map { .string($0.description) } ?? .null,
            ]
        }
    }

    /// One entry, every side whole.
    func conflict(_ name: String) throws -> JSONValue {
        guard let id = ConflictID(name) else { throw CommandFailure.noConflict(name) }
        return try coordinator.read { reader in
            guard let conflict = try reader.conflict(id) else {
                throw CommandFailure.noConflict(name)
            }
            let base = try reader.base(of: conflict)
            return .object(encoder(reader).conflict(conflict, base: base))
        }
    }

    private func conflictQuery(_ target: StoreRequest) throws -> ConflictQuery {
        var query = ConflictQuery(limit: try target.count("limit") ?? 100)
        if let state = target["state"], state != "all" {
            guard let known = ConflictState(rawValue: state) else {
                throw CommandFailure.usage("--state is unresolved, settled, resolved or all.")
            }
            query.state = known
        }
        if let kind = target["kind"] {
            guard let known = ConflictKind(rawValue: kind) else {
                let kinds = ConflictKind.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandFailure.usage("--kind is one of \(kinds).")
            }
            query.kind = known
        }
        if let violation = target["violation"] {
            guard let known = ConflictViolation(rawValue: violation) else {
                let rules = ConflictViolation.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandFailure.usage("--violation is one of \(rules).")
            }
            query.violation = known
        }
        if let entity = target["entity"] {
            guard coordinator.model.entity(named: entity) != nil else {
                throw CommandFailure.noEntity(entity, in: coordinator.model)
            }
            query.entity = entity
        }
        if let object = target["object"] {
            guard let uri = ObjectURI(object), uri.cluster == coordinator.cluster else {
                throw CommandFailure.usage("--object is the URI of an object of this cluster.")
            }
            query.object = uri.objectID
        }
        query.isOpen = target["open"].map { $0 == "true" }
        if let after = target["after"] {
            guard let place = ConflictPlace(after) else {
                throw CommandFailure.usage("--after is the \"next\" of a list of conflicts.")
            }
            query.after = place
        }
        return query
    }
}

extension CommandFailure {
    /// No conflict has that name.
    static func noConflict(_ name: String) -> Self {
        Self(.failed, "There is no conflict \(name). See `tributary conflicts list --state all`.")
    }
}
