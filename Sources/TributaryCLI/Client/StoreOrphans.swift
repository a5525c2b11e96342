// The orphans of a store's file, as GET /v1/orphans gives a node's.

import Console
import Coordinator
import Merge

extension StoreInterface {
    /// A page of them by dot, within the bounds of a node's answer.
    func orphans(_ target: StoreRequest) throws -> JSONValue {
        let limit = min(try target.count("limit") ?? .max, 10_000)
        let after = try target["after"].map(Self.dot)
        return try coordinator.read { reader in
            let encoder = encoder(reader)
            var orphans: [JSONValue] = []
            var (bytes, last, next): (Int, Dot?, Dot?) = (0, nil, nil)
            for dot in try reader.orphanedDots() where after.map({ dot > $0 }) ?? true {
                if orphans.count == limit || bytes >= 8 << 20 {
                    next = last
                    break
                }
                guard let orphan = try reader.orphan(dot) else { continue }
                orphans.append(.object(encoder.orphan(orphan)))
                bytes += orphan.encoded?.bytes.count ?? 0
                last = dot
            }
            return [
                "orphans": .array(orphans), "next": StoreEncoder.text(next?.description),
            ]
        }
    }

    /// One of them.
    ///
    /// - Throws: ``CoordinatorError``: `orphanUnknown`.
    func orphan(_ name: String) throws -> JSONValue {
        let dot = try Self.dot(name)
        return try coordinator.read { reader in
            guard let orphan = try reader.orphan(dot) else {
                throw CoordinatorError(.orphanUnknown, "No orphan \(dot) is kept here.")
            }
            return .object(encoder(reader).orphan(orphan))
        }
    }

    private static func dot(_ text: String) throws -> Dot {
        guard let dot = Dot(text) else { throw CommandFailure.noDot(text) }
        return dot
    }
}

extension StoreEncoder {
    /// A transaction as history has it, with when it was kept; of a damaged one its name alone.
    fileprivate func orphan(_ orphan: OrphanedTransaction) -> JSONObject {
        var result: JSONObject = [
            "transaction": .string(orphan.dot.description),
            "keptAt": ["milliseconds": Self.count(orphan.keptAtMilliseconds)],
            "damaged": .boolean(orphan.encoded == nil),
        ]
        guard let encoded = orphan.encoded else {
            result["changes"] = .array([])
            return result
        }
        for member in transaction(encoded.transaction).members where member.key != "dot" {
            result[member.key] = member.value
        }
        return result
    }
}

extension CommandFailure {
    /// Text names no transaction.
    static func noDot(_ text: String) -> Self {
        usage("\"\(text)\" is not the name of a transaction, such as 2.6f3a91c04be1d277-117.")
    }
}
