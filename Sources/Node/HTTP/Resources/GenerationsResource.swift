// POST /v1/generations and DELETE /v1/generations/{token}.

internal import Coordinator
internal import Merge

/// Pins for remote clients.
struct GenerationsResource: Sendable {
    let services: HTTPServices
    private static let defaultSeconds = 60

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        var after: QueryGenerationToken?
        var seconds = Self.defaultSeconds
        var timeout = Duration.seconds(10)
        if !request.body.isEmpty {
            let fields = try JSONFields(
                try request.json(maximumBytes: services.maximumBodyBytes),
                allowed: ["after", "leaseSeconds", "timeoutSeconds"])
            after = try fields.token("after")
            timeout = try fields.timeout()
            if let wanted = try fields.count("leaseSeconds", atLeast: 1) {
                guard wanted <= GenerationLeases.Limits.seconds else {
                    throw fields.wrong(
                        "leaseSeconds", "from 1 to \(GenerationLeases.Limits.seconds)")
                }
                seconds = wanted
            }
        }
        _ = try await services.pin(generation: nil, after: after, timeout: timeout)
        let coordinator = services.coordinator
        // An expired lease holds no pin against this one.
        services.leases.sweep()
        let pin = try await services.blocking { try coordinator.pinCurrentGeneration() }
        try services.leases.add(pin, seconds: seconds)
        return .json([
            "token": .string(pin.token.text),
            "generation": ValueRenderer.count(pin.token.generation),
            "vector": ValueRenderer.vector(pin.token.versionVector),
            "digest": .string(pin.digest.description), "leaseSeconds": .integer(Int64(seconds)),
        ])
    }

    func delete(_ text: String) throws -> HTTPAnswer {
        guard let token = QueryGenerationToken(text: text) else {
            throw HTTPError.malformed("\"\(text)\" is no token as this interface gives them.")
        }
        try services.leases.release(token)
        return .json(["released": .boolean(true)])
    }
}
