// Where a store's file stands, as GET /v1/status tells it of a node.

import Coordinator
import Foundation
import Merge

extension StoreInterface {
    /// The members of a node's answer; what only a running node has is empty or null.
    func status() throws -> JSONValue {
        // Before the read below: a file is read over one connection, whose reads do not nest.
        let history = try coordinator.historyStatus()
        return try coordinator.read { reader in
            let token = try reader.token
            return [
                "node": .integer(Int64(coordinator.node.rawValue)), "actor": .null,
                "cluster": .string(coordinator.cluster),
                "vector": StoreEncoder.vector(token.versionVector),
                "generation": StoreEncoder.count(token.generation), "token": .string(token.text),
                "digest": .string(try reader.digest.description),
                "modelHash": .string(coordinator.model.modelHashText),
                "parked": .array(
                    try reader.parkedValues().map {
                        ["place": .string($0.place), "count": .integer(Int64($0.count))]
                    }),
                "members": .array(
                    try reader.membership.current.map { .integer(Int64($0.rawValue)) }),
                "peers": .array([]),
                "conflicts": Self.conflictCounts(try reader.conflictCounts()),
                "pins": [
                    "count": .integer(0), "oldestGeneration": .null,
                    "oldestAgeMilliseconds": .integer(0), "leases": .integer(0),
                ],
                "store": Self.sizes(coordinator.storeSizes()),
                "held": .array(try reader.orphanedDots().map(Self.held)),
                "transfer": .null, "savesRefused": .null, "alarms": .array([]), "keys": .null,
                "stability": .null, "history": Self.past(history),
            ]
        }
    }

    /// Open conflicts by state, then kind; both states are there also where nothing is in them.
    private static func conflictCounts(
        _ counts: [(state: String, kind: String, count: Int)]
    ) -> JSONValue {
        var result = JSONObject()
        for state in [ConflictState.unresolved, .settled] {
            var kinds = JSONObject()
            for entry in counts where entry.state == state.rawValue {
                kinds[entry.kind] = .integer(Int64(entry.count))
            }
            result[state.rawValue] = .object(kinds)
        }
        return .object(result)
    }

    /// Of what a node holds its store keeps what can be applied no more.
    private static func held(_ orphan: Dot) -> JSONValue {
        [
            "transaction": .string(orphan.description),
            "reason": .string(
                "It cannot be applied any more: an earlier save of its node is lost with that node. "
                    + "What it wrote is kept: see `tributary orphans`."),
        ]
    }

    private static func sizes(_ sizes: StoreSizes) -> JSONValue {
        [
            "bytes": StoreEncoder.count(sizes.storeBytes),
            "walBytes": StoreEncoder.count(sizes.walBytes),
            "walFileBytes": StoreEncoder.count(sizes.walFileBytes),
        ]
    }

    /// What is kept of the past, and for whom. Limits, and what has gone, only a node knows.
    private static func past(_ history: HistoryStatus) -> JSONValue {
        let now = UInt64(max(0, Date().timeIntervalSince1970 * 1000))
        return [
            "transactions": StoreEncoder.count(history.transactions),
            "bytes": StoreEncoder.count(history.bytes),
            "oldest": StoreEncoder.timestamp(history.oldest),
            "closedConflicts": .integer(Int64(history.closedRecords)),
            "consumers": .array(history.consumers.map { consumer($0, now: now) }),
        ]
    }

    private static func consumer(_ consumer: HistoryConsumer, now: UInt64) -> JSONValue {
        func age(_ then: UInt64) -> JSONValue { StoreEncoder.count(now > then ? now - then : 0) }
        return [
            "name": .string(consumer.name), "token": .string(consumer.token.text),
            "behind": [
                "transactions": StoreEncoder.count(consumer.behind),
                "ageMilliseconds": consumer.oldestUnread.map { age($0.milliseconds) } ?? .null,
            ],
            "toldMillisecondsAgo": age(consumer.toldAtMilliseconds),
            "expired": .boolean(consumer.isExpired),
        ]
    }
}
