// GET /v1/changes: server-sent events.

internal import Coordinator
internal import Merge
internal import NIOCore

/// The log as it grows, one event a transaction.
///
/// Every event is read from the log when the client has taken those before it: a slow client
/// holds up nobody and costs no memory. Its place is in every event's ID, so it can come back.
struct ChangesResource: Sendable {
    let services: HTTPServices

    enum Limits {
        /// Transactions read at once.
        static let transactions = 64
        /// Bytes of events collected before they are written.
        static let bytes = 256 << 10
        /// How often a comment is sent where nothing happens, so that both sides and whatever is
        /// between them know that the connection lives.
        static let heartbeat = Duration.seconds(15)
    }

    func get(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let after: QueryGenerationToken?
        if let text = request.lastEventID {
            guard let token = QueryGenerationToken(text: text) else {
                throw HTTPError.malformed("Last-Event-ID must be an event's ID of this interface.")
            }
            after = token
        } else {
            after = try request.token("after")
        }
        let filter = try HistoryResource.filter(request, services)
        // Following begins before the place is read, so that nothing falls in between.
        let wakes = services.feed.follow(for: ReadOrigin.current.client)
        let known = try await services.known(after)
        let place = try await services.read { reader in
            let current = try reader.token
            return try LogPlace(after: known ?? current, current: current, for: filter, reader)
        }
        let services = services
        let isStillAllowed = request.isStillAllowed
        let renderer = TransactionRenderer(renderer: services.renderer)
        return HTTPAnswer(
            contentType: "text/event-stream",
            body: .stream { write in
                try await Self.send(
                    wakes, from: place, filter, services, renderer, while: isStillAllowed, write)
            })
    }

    private static func send(
        _ wakes: AsyncStream<Void>, from first: LogPlace, _ filter: ResolvedHistoryFilter,
        _ services: HTTPServices,
        _ renderer: TransactionRenderer, while isStillAllowed: @Sendable () -> Bool,
        _ write: HTTPAnswer.Write
    ) async throws {
        try await write(ByteBuffer(string: ": following\n\n"))
        var place = first
        var lastWrite = ContinuousClock.now
        var told = place.token.versionVector
        var iterator = wakes.makeAsyncIterator()
        while isStillAllowed() {
            let from = place
            let (events, reached) = try await services.read { reader in
                try Self.events(after: from, filter, reader, renderer)
            }
            place = reached
            if !events.isEmpty {
                told = place.token.versionVector
                try await write(ByteBuffer(bytes: events))
                lastWrite = .now
                continue
            }
            if ContinuousClock.now - lastWrite >= Limits.heartbeat {
                // The place goes on though nothing is wanted: without it a client that comes back would
                // read all of that once more, or find it purged. An ID alone is no event.
                let isSame = place.token.versionVector == told
                told = place.token.versionVector
                let id = isSame ? "" : "id: \(place.token.text)\n"
                try await write(ByteBuffer(string: "\(id): still here\n\n"))
                lastWrite = .now
            }
            if !place.reachedEnd { continue }
            guard await iterator.next() != nil else { return }
        }
    }

    private static func events(
        after first: LogPlace, _ filter: ResolvedHistoryFilter, _ reader: StoreReader,
        _ renderer: TransactionRenderer
    ) throws -> (events: [UInt8], place: LogPlace) {
        let entities = ReferencedEntities(reader, renderer.renderer.model)
        var place = first
        var output: [UInt8] = []
        for _ in 0..<Limits.transactions where output.count < Limits.bytes {
            guard let transaction = try place.step(reader)?.transaction else {
                if place.reachedEnd { break }
                continue
            }
            guard let wanted = try filter.wantedObjects(of: transaction, reader) else { continue }
            output.append(contentsOf: "id: \(place.token.text)\nevent: transaction\ndata: ".utf8)
            var object = try renderer.json(
                transaction, derived: reader.derivedChanges(of: transaction.dot), wanted: wanted,
                entities.name)
            object["token"] = .string(place.token.text)
            JSONWriter.append(.object(object), to: &output)
            output.append(contentsOf: "\n\n".utf8)
        }
        return (output, place)
    }
}
