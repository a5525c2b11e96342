// GET /v1/advice.

internal import Coordinator

/// Indexes that the requests which this node has seen would use.
struct AdviceResource: Sendable {
    let services: HTTPServices

    func get() async throws -> HTTPAnswer {
        guard services.coordinator.actor != nil else {
            throw NotSupported("A store's file has seen no requests; give the one to advise for.")
        }
        let observed = services.coordinator.observedRequests
        return .json(
            try await services.read { reader in
                AdviceRenderer.json(
                    try reader.indexAdvice(for: observed.requests),
                    observed: observed.requests.count, dropped: observed.dropped)
            })
    }
}
