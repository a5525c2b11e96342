// POST /v1/reload.

internal import Coordinator

/// Reads keys, tokens and certificates of the configuration again, and lifts quarantines.
struct ReloadResource: Sendable {
    let services: HTTPServices

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        if !request.body.isEmpty {
            _ = try JSONFields(
                try request.json(maximumBytes: services.maximumBodyBytes), allowed: [])
        }
        let report = try await services.backend.reload()
        return .json(
            JSONWriter.bytes(of: [
                "changed": .array(report.changed.map { .string($0) }),
                "atNextStart": .array(report.atNextStart.map { .string($0) }),
            ]))
    }
}
