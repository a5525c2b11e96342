// POST /v1/verify.

internal import Coordinator
internal import Merge

/// Compares a generation's digest with its rows, and with the peers'.
struct VerifyResource: Sendable {
    let services: HTTPServices

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        if !request.body.isEmpty {
            _ = try JSONFields(
                try request.json(maximumBytes: services.maximumBodyBytes), allowed: [])
        }
        let report = try await services.verify()
        if !report.isOK { services.backend.noteUnsound(report.differences) }
        var isOK = report.isOK
        var differences = report.differences
        var peers = JSONObject()
        for peer in await services.backend.peerDigests() {
            // Only at equal vectors must digests be equal.
            let isComparable = peer.vector == report.versionVector
            let agrees = peer.digest == report.digest
            if isComparable, !agrees {
                isOK = false
                differences.append(
                    "node \(peer.node) shows something else at the same vector: its digest is "
                        + "\(peer.digest)")
            }
            peers[peer.node.description] = [
                "vector": ValueRenderer.vector(peer.vector),
                "digest": .string(peer.digest.description),
                "agrees": isComparable ? .boolean(agrees) : .null,
            ]
        }
        return .json([
            "ok": .boolean(isOK),
            "sound": .boolean(report.isOK),
            "vector": ValueRenderer.vector(report.versionVector),
            "generation": ValueRenderer.count(report.generation),
            "digest": .string(report.digest.description),
            "recomputed": .string(report.recomputed.description),
            "peers": .object(peers),
            "differences": .array(differences.map { .string($0) }),
            "derivedDifferences": .array(report.derivedDifferences.map { .string($0) }),
        ])
    }
}
