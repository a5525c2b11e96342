// GET /healthz, /readyz and /metrics.

internal import Coordinator

/// The requests of supervisors.
struct HealthResource: Sendable {
    let services: HTTPServices

    func health() -> HTTPAnswer { .json(["status": .string("ok")]) }

    func readiness() throws -> HTTPAnswer {
        if let reason = services.writerStopped {
            throw HTTPError(
                503, "notReady", "The store takes no saves any more: \(reason.message)")
        }
        guard services.backend.isReady else {
            throw HTTPError(503, "notReady", "The node has not started yet.")
        }
        return .json(["status": .string("ready")])
    }

    func metrics() async throws -> HTTPAnswer {
        HTTPAnswer(
            contentType: "text/plain; version=0.0.4; charset=utf-8",
            body: .whole(
                Array((try await services.backend.metricsText() + services.metricsText).utf8)))
    }
}
