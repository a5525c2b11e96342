// GET /v1/model.

internal import Coordinator

/// The model, rendered once: it never changes while the node runs.
struct ModelResource: Sendable {
    private let bytes: [UInt8]

    init(services: HTTPServices) {
        bytes = JSONWriter.bytes(of: services.model.jsonValue())
    }

    func get() -> HTTPAnswer { .json(bytes) }
}
