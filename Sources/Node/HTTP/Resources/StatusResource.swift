// GET /v1/status.

internal import Coordinator
internal import Merge
internal import Replication

/// Where the node stands.
struct StatusResource: Sendable {
    let services: HTTPServices

    func get() async throws -> HTTPAnswer {
        let status = await services.backend.status()
        let leases = services.leases.count
        let coordinator = services.coordinator
        let (now, wall) = (MonotonicClock.milliseconds, MonotonicClock.wallMilliseconds)
        let (past, refusal) = try await services.blocking {
            (try coordinator.historyStatus(), try coordinator.savingRefusal)
        }
        let reads = Self.reads(services.lanes, now: now)
        let answers: JSONValue = [
            "bytes": .integer(Int64(services.answers.bytes)),
            "maximumBytes": .integer(Int64(services.answers.limit)),
        ]
        return .json(
            try await services.read { reader in
                let token = try reader.token
                return JSONWriter.bytes(of: [
                    "node": .integer(Int64(coordinator.node.rawValue)),
                    "actor": ValueRenderer.text(coordinator.actor?.description),
                    "cluster": .string(coordinator.cluster),
                    "vector": ValueRenderer.vector(token.versionVector),
                    "generation": ValueRenderer.count(token.generation),
                    "token": .string(token.text),
                    "digest": .string(try reader.digest.description),
                    "modelHash": .string(coordinator.model.modelHashText),
                    "parked": .array(
                        try reader.parkedValues().map {
                            ["place": .string($0.place), "count": .integer(Int64($0.count))]
                        }),
                    "members": .array(
                        status.members.map { .integer(Int64($0.rawValue)) }),
                    "peers": .array(status.peers.map(Self.peer)),
                    "conflicts": Self.conflicts(try reader.conflictCounts()),
                    "pins": Self.pins(coordinator.pinStatus, leases: leases),
                    "store": Self.store(coordinator.storeSizes()),
                    "held": .array(
                        status.held.map {
                            [
                                "transaction": .string($0.transaction.description),
                                "reason": .string($0.reason),
                            ]
                        }),
                    "transfer": Self.transfer(status.transfer),
                    "savesRefused": refusal.map {
                        ["code": .string($0.code.rawValue), "message": .string($0.message)]
                    } ?? .null,
                    "alarms": .array(
                        status.alarms.map { alarm in
                            [
                                "name": .string(alarm.name), "text": .string(alarm.text),
                                "count": ValueRenderer.count(alarm.count),
                                "lastMillisecondsAgo": ValueRenderer.count(
                                    max(now, alarm.raisedAt) - alarm.raisedAt),
                            ]
                        }),
                    "keys": MeshKeyRenderer.value(status.keys, now: status.lookedAt),
                    "stability": Self.stability(
                        status.stability, uncollected: try reader.uncollectedCount,
                        tombstones: coordinator.tombstoneCount, now: now),
                    "history": Self.history(past, status, now: wall),
                    "reads": reads,
                    "answers": answers,
                ])
            })
    }

    private static func peer(_ peer: NodeStatus.Peer) -> JSONValue {
        var fields: JSONObject = [
            "node": .integer(Int64(peer.node.rawValue)),
            "connected": .boolean(peer.isConnected),
            "vector": ValueRenderer.vector(peer.vector),
            "lag": ValueRenderer.count(peer.lag),
            "missingHere": ValueRenderer.count(peer.missingHere),
            "clockOffsetMilliseconds": peer.clockOffsetMilliseconds.map { .integer($0) } ?? .null,
            "refusal": ValueRenderer.text(peer.refusal),
        ]
        if let milliseconds = peer.quarantineMilliseconds {
            fields["quarantineMilliseconds"] = ValueRenderer.count(milliseconds)
        }
        if let handshake = peer.handshake {
            fields["handshake"] = .string(handshake.rawValue)
            fields["publicKey"] = ValueRenderer.text(peer.publicKey?.text)
        }
        return .object(fields)
    }

    /// Open conflicts by state, then kind.
    private static func conflicts(
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

    private static func pins(_ pins: PinStatus, leases: Int) -> JSONValue {
        [
            "count": .integer(Int64(pins.count)),
            "oldestGeneration": pins.oldestGeneration.map(ValueRenderer.count) ?? .null,
            "oldestAgeMilliseconds": ValueRenderer.count(pins.oldestAgeMilliseconds),
            "leases": .integer(Int64(leases)),
        ]
    }

    /// The reads of clients, the eldest first.
    private static func reads(_ lanes: ReadLanes, now: UInt64) -> JSONValue {
        let gauges = lanes.gauges
        return [
            "underWay": .array(
                lanes.shown.map { read in
                    [
                        "text": .string(read.text),
                        "milliseconds": ValueRenderer.count(max(now, read.begunAt) - read.begunAt),
                        "isLong": .boolean(read.isLong),
                    ]
                }),
            "waiting": .integer(Int64(gauges.waiting)),
            "waitingLong": .integer(Int64(gauges.waitingLong)),
        ]
    }

    private static func transfer(_ transfer: TransferStatus?) -> JSONValue {
        guard let transfer else { return .null }
        return [
            "donor": .integer(Int64(transfer.donor.rawValue)),
            "bytes": ValueRenderer.count(transfer.offset),
            "total": transfer.total.map(ValueRenderer.count) ?? .null,
        ]
    }

    private static func store(_ sizes: StoreSizes) -> JSONValue {
        [
            "bytes": ValueRenderer.count(sizes.storeBytes),
            "walBytes": ValueRenderer.count(sizes.walBytes),
            "walFileBytes": ValueRenderer.count(sizes.walFileBytes),
        ]
    }
}
