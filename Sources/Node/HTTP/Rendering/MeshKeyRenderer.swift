// The report on keys as JSON.

internal import Coordinator
internal import Merge

/// Writes what a node knows of the mesh's keys.
enum MeshKeyRenderer {
    /// The report; null for a mesh without keys.
    ///
    /// - Parameter now: monotonic milliseconds.
    static func value(_ report: MeshKeyReport, now: UInt64) -> JSONValue {
        guard let key = report.publicKey else { return .null }
        return [
            "publicKey": .string(key.text),
            "listening": .boolean(report.isListening),
            "refused": .array(report.refusals.map { refusal($0, now: now) }),
        ]
    }

    private static func refusal(_ refusal: MeshKeyReport.Refusal, now: UInt64) -> JSONValue {
        let (reason, claimed): (String, NodeID?) =
            switch refusal.reason {
            case .keyNotListed: ("keyNotListed", nil)
            case .claimsToBe(let node): ("claimsToBe", node)
            }
        return [
            "reason": .string(reason),
            "publicKey": ValueRenderer.text(refusal.publicKey?.text),
            "node": refusal.node.map { .integer(Int64($0.rawValue)) } ?? .null,
            "claimed": claimed.map { .integer(Int64($0.rawValue)) } ?? .null,
            "address": ValueRenderer.text(refusal.address.isEmpty ? nil : refusal.address),
            "count": .integer(Int64(refusal.count)),
            "lastMillisecondsAgo": ValueRenderer.count(
                now - min(now, refusal.lastMilliseconds)),
        ]
    }
}
