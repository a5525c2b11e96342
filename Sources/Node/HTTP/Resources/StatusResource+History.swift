// The parts of GET /v1/status that tell of stability and of history.

internal import Coordinator
internal import Merge
internal import Replication

extension StatusResource {
    /// The transactions that are not stable, and who holds them back; null if the node does not
    /// replicate.
    static func stability(
        _ report: StabilityReport?, uncollected: Int, tombstones: Int, now: UInt64
    ) -> JSONValue {
        guard let report else { return .null }
        func age(_ since: UInt64?) -> JSONValue {
            since.map { ValueRenderer.count(now > $0 ? now - $0 : 0) } ?? .null
        }
        return [
            "vector": ValueRenderer.vector(report.stable),
            "waiting": [
                "transactions": ValueRenderer.count(report.unstable),
                "rows": .integer(Int64(uncollected)), "tombstones": .integer(Int64(tombstones)),
            ],
            "waitingMilliseconds": age(report.waitingSince),
            "recovering": .boolean(report.isRecovering),
            "heldBackBy": .array(
                report.holders(now: now).map { .integer(Int64($0.status.node.rawValue)) }),
            "members": .array(
                report.members.map { member in
                    [
                        "node": .integer(Int64(member.status.node.rawValue)),
                        "hindrance": ValueRenderer.text(member.hindranceName),
                        "transactions": ValueRenderer.count(member.status.unrecorded),
                        "waitingMilliseconds": age(member.waitingSince),
                        "heardMillisecondsAgo": age(member.heardAt),
                        "text": .string(member.reason(now: now, startedAt: report.startedAt)),
                    ]
                }),
        ]
    }

    /// The history that is kept, for whom and within which limits, and what was purged.
    static func history(
        _ history: HistoryStatus, _ status: NodeStatus, now: UInt64
    ) -> JSONValue {
        var object: JSONObject = [
            "transactions": ValueRenderer.count(history.transactions),
            "bytes": ValueRenderer.count(history.bytes),
            "oldest": history.oldest.map { ValueRenderer.timestamp($0) } ?? .null,
            "closedConflicts": .integer(Int64(history.closedRecords)),
            "consumers": .array(
                history.consumers.map { .object(ConsumersResource.json($0, now: now)) }),
        ]
        if let limits = status.historyLimits {
            object["limits"] = [
                "keepMilliseconds": ValueRenderer.count(limits.keepMilliseconds),
                "maximumBytes": ValueRenderer.count(limits.maximumBytes),
                "maximumRecords": .integer(Int64(limits.maximumRecords)),
            ]
        }
        if let report = status.history {
            object["purged"] = [
                "byAge": ValueRenderer.count(report.purgedByAge),
                "bySize": ValueRenderer.count(report.purgedBySize),
                "unstable": ValueRenderer.count(report.purgedUnstable),
                "closedConflicts": ValueRenderer.count(report.recordsDropped),
            ]
            object["heldBackBy"] = ValueRenderer.text(report.hold?.text)
            object["lastUnstable"] =
                report.lastUnstable.map { last in
                    [
                        "milliseconds": ValueRenderer.count(last.atMilliseconds),
                        "transaction": .string(last.transaction.description),
                        "members": .array(last.members.map { .integer(Int64($0.rawValue)) }),
                    ]
                } ?? .null
        }
        return .object(object)
    }
}
