// GET /v1/consumers, GET, PUT and DELETE /v1/consumers/{name}.

internal import Coordinator
internal import Merge

/// The named readers of this node's history, for which it is kept.
struct ConsumersResource: Sendable {
    let services: HTTPServices

    func list() async throws -> HTTPAnswer {
        let now = MonotonicClock.wallMilliseconds
        let coordinator = services.coordinator
        return .json(
            try await services.blocking {
                let consumers = try coordinator.historyStatus().consumers
                return ["consumers": .array(consumers.map { .object(Self.json($0, now: now)) })]
            })
    }

    func get(_ name: String) async throws -> HTTPAnswer {
        let now = MonotonicClock.wallMilliseconds
        let coordinator = services.coordinator
        return .json(
            try await services.blocking {
                .object(Self.json(try Self.consumer(name, coordinator), now: now))
            })
    }

    /// Registers a consumer, or notes how far it has read. Without a token it begins here and now.
    func put(_ name: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        var token: QueryGenerationToken?
        if !request.body.isEmpty {
            token = try JSONFields(
                try request.json(maximumBytes: services.maximumBodyBytes), allowed: ["token"]
            ).token("token")
        }
        let now = MonotonicClock.wallMilliseconds
        let coordinator = services.coordinator
        let place = try await services.known(token)
        return .json(
            try await services.blocking {
                try coordinator.setConsumer(name, to: place)
                return .object(Self.json(try Self.consumer(name, coordinator), now: now))
            })
    }

    func delete(_ name: String) async throws -> HTTPAnswer {
        let coordinator = services.coordinator
        return .json(
            try await services.blocking {
                try coordinator.removeConsumer(name)
                return ["removed": .boolean(true)]
            })
    }

    private static func consumer(
        _ name: String, _ coordinator: PersistentStoreCoordinator
    ) throws -> HistoryConsumer {
        guard
            let consumer = try coordinator.historyStatus().consumers.first(where: {
                $0.name == name
            })
        else {
            throw CoordinatorError(.consumerUnknown, "There is no consumer \(name).")
        }
        return consumer
    }

    /// A consumer, with its token as `GET /v1/history?after=` takes it.
    static func json(_ consumer: HistoryConsumer, now: UInt64) -> JSONObject {
        func age(_ then: UInt64) -> JSONValue { ValueRenderer.count(now > then ? now - then : 0) }
        return [
            "name": .string(consumer.name), "token": .string(consumer.token.text),
            "behind": [
                "transactions": ValueRenderer.count(consumer.behind),
                "ageMilliseconds": consumer.oldestUnread.map { age($0.milliseconds) } ?? .null,
            ],
            "toldMillisecondsAgo": age(consumer.toldAtMilliseconds),
            "expired": .boolean(consumer.isExpired),
        ]
    }
}
