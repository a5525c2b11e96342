// POST /v1/fetch.

internal import Coordinator
internal import Merge
internal import NIOCore

/// Fetches: whole answers, and streams of lines in bounded memory.
struct FetchResource: Sendable {
    let services: HTTPServices

    enum Limits {
        /// Objects read at once for a stream.
        static let batch = 256
        /// Bytes collected before a part of a stream is written.
        static let part = 64 << 10
    }

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fetch = try ClientFetch(
            try request.json(maximumBytes: services.maximumBodyBytes), model: services.model)
        let source = try await services.source(
            at: fetch.at, generation: fetch.generation, after: fetch.after,
            timeout: fetch.timeout)
        if request.wantsLines { return try await lines(fetch, source) }
        let renderer = services.renderer.writing(request.answerFormat)
        return HTTPAnswer(
            contentType: renderer.format.mediaType,
            body: try await services.read(source, as: fetch.text) {
                try answer(fetch, $0, renderer, state: try source.token($0))
            })
    }

    // MARK: Whole answers

    private func answer(
        _ fetch: ClientFetch, _ reader: StoreReader, _ renderer: ValueRenderer,
        state: QueryGenerationToken
    ) throws -> HTTPAnswer.Body {
        let format = renderer.format
        var writer = AnswerWriter(services, reader, format)
        let prefetches =
            fetch.request.resultType == .objects
            && !fetch.request.relationshipKeyPathsForPrefetching.isEmpty
        format.beginObject(prefetches ? 5 : 4, in: &writer.output)
        switch fetch.request.resultType {
        case .objects: try appendObjects(fetch, reader, renderer, to: &writer)
        case .ids:
            format.append(key: "ids", isFirst: true, to: &writer.output)
            var list = writer.beginList()
            for object in try reader.objectIDs(fetch.request) {
                writer.beginElement(of: &list)
                format.append(plain: renderer.uri(object), to: &writer.output)
                try writer.check()
            }
            writer.end(list)
        case .dictionary:
            format.append(key: "rows", isFirst: true, to: &writer.output)
            var list = writer.beginList()
            try forEachDictionary(fetch, reader, renderer) { row in
                writer.beginElement(of: &list)
                format.append(row, to: &writer.output)
                try writer.check()
            }
            writer.end(list)
        case .count:
            format.append(key: "count", isFirst: true, to: &writer.output)
            format.append(.integer(Int64(try reader.count(fetch.request))), to: &writer.output)
        }
        renderer.appendState(state, to: &writer.output)
        format.endObject(in: &writer.output)
        return try writer.finish()
    }

    private func appendObjects(
        _ fetch: ClientFetch, _ reader: StoreReader, _ renderer: ValueRenderer,
        to writer: inout AnswerWriter
    ) throws {
        let format = renderer.format
        var encoder = ObjectEncoder(reader, renderer: renderer, selection: fetch.selection)
        var fetched: [ManagedObjectID] = []
        let prefetches = !fetch.request.relationshipKeyPathsForPrefetching.isEmpty
        format.append(key: "objects", isFirst: true, to: &writer.output)
        var objects = writer.beginList()
        try reader.forEach(fetch.request) { row in
            writer.beginElement(of: &objects)
            try encoder.append(row, to: &writer.output)
            if prefetches { fetched.append(row.objectID) }
            try writer.check()
            return true
        }
        writer.end(objects)
        guard prefetches else { return }
        var whole = ObjectEncoder(
            reader, renderer: renderer,
            selection: ObjectSelection(includesVersions: fetch.selection.includesVersions))
        format.append(key: "prefetched", to: &writer.output)
        var prefetched = writer.beginList(isObject: true)
        try RelatedObjects(reader, renderer.model).forEach(
            from: fetched, along: fetch.request.relationshipKeyPathsForPrefetching
        ) { row in
            writer.beginElement(of: &prefetched)
            writer.output.append(
                contentsOf: format.bytes(ofKey: renderer.uri(row.objectID)))
            try whole.append(row, to: &writer.output)
            try writer.check()
        }
        writer.end(prefetched)
    }

    private func forEachDictionary(
        _ fetch: ClientFetch, _ reader: StoreReader, _ renderer: ValueRenderer,
        _ body: (JSONValue) throws -> Void
    ) throws {
        let entities = ReferencedEntities(reader, renderer.model)
        try reader.forEachDictionary(fetch.request) { row in
            var object = JSONObject()
            for column in row {
                object[column.name] = try renderer.value(
                    column.value, column.content, entities.name)
            }
            try body(.object(object))
            return true
        }
    }

    // MARK: Streams

    private func lines(_ fetch: ClientFetch, _ given: ReadSource) async throws -> HTTPAnswer {
        guard fetch.request.relationshipKeyPathsForPrefetching.isEmpty else {
            throw HTTPError.malformed("\"prefetch\" cannot be streamed; fetch the objects apart.")
        }
        let services = services
        let renderer = services.renderer
        let coordinator = services.coordinator
        let source: ReadSource
        if case .present(nil) = given {
            source = .present(
                try await services.blocking { try coordinator.pinCurrentGeneration() })
        } else {
            source = given
        }
        let (plan, token) = try await services.read(source, as: fetch.text) {
            (try self.plan(fetch, $0, renderer), try source.token($0))
        }
        let body: @Sendable (HTTPAnswer.Write) async throws -> Void = { write in
            if case .budgeted(let lines) = plan.lines { try await lines.send(write) }
            if case .whole(let lines) = plan.lines, !lines.isEmpty {
                try await write(ByteBuffer(bytes: lines))
            }
            var next = 0
            while next < plan.rows.count {
                let first = next
                let (part, reached) = try await services.read(source, as: fetch.text) {
                    try Self.part(of: plan, from: first, fetch, $0, renderer)
                }
                next = reached
                try await write(ByteBuffer(bytes: part))
            }
            next = 0
            while next < plan.objects.count {
                let (part, reached) = Self.lines(of: plan.objects, from: next, renderer)
                next = reached
                try await write(ByteBuffer(bytes: part))
            }
            var end = Array("{\"end\":true,\"count\":\(plan.count)".utf8)
            renderer.appendState(token, to: &end)
            end.append(contentsOf: "}\n".utf8)
            try await write(ByteBuffer(bytes: end))
        }
        let room = try AnswerRoom(services.answers, plan.bytes)
        return HTTPAnswer(
            contentType: "application/x-ndjson",
            body: .stream { write in
                defer { withExtendedLifetime(room) {} }
                try await body(write)
            })
    }

    /// The content of a stream: the rows of objects to be read batch by batch, objects to be named,
    /// or lines.
    private struct StreamPlan: Sendable {
        var count: Int
        var rows: [RowID] = []
        var objects: [ManagedObjectID] = []
        var lines = HTTPAnswer.Body.whole([])

        /// The bytes of its lists, which are kept until all is sent.
        var bytes: Int {
            rows.count * MemoryLayout<RowID>.stride
                + objects.count * MemoryLayout<ManagedObjectID>.stride
        }
    }

    private func plan(
        _ fetch: ClientFetch, _ reader: StoreReader, _ renderer: ValueRenderer
    ) throws -> StreamPlan {
        var plan = StreamPlan(count: 0)
        switch fetch.request.resultType {
        case .count: plan.count = try reader.count(fetch.request)
        case .objects:
            // Eight bytes an object are kept, and no object: reading on a thread for as long as a
            // slow client takes would let a few of them stop all others.
            plan.rows = try reader.objectIDs(fetch.request).map(\.row)
            plan.count = plan.rows.count
        case .ids:
            plan.objects = try reader.objectIDs(fetch.request)
            plan.count = plan.objects.count
        case .dictionary:
            var writer = AnswerWriter(services, reader)
            try forEachDictionary(fetch, reader, renderer) { row in
                JSONWriter.append(row, to: &writer.output)
                writer.output.append(UInt8(ascii: "\n"))
                plan.count += 1
                try writer.check()
            }
            plan.lines = try writer.finish()
        }
        return plan
    }

    private static func lines(
        of objects: [ManagedObjectID], from first: Int, _ renderer: ValueRenderer
    ) -> (bytes: [UInt8], next: Int) {
        var output: [UInt8] = []
        var next = first
        while next < objects.count, output.count < Limits.part {
            output.append(contentsOf: "{\"id\":\"\(renderer.uri(objects[next]))\"}\n".utf8)
            next += 1
        }
        return (output, next)
    }

    private static func part(
        of plan: StreamPlan, from first: Int, _ fetch: ClientFetch, _ reader: StoreReader,
        _ renderer: ValueRenderer
    ) throws -> (bytes: [UInt8], next: Int) {
        var encoder = ObjectEncoder(reader, renderer: renderer, selection: fetch.selection)
        var output: [UInt8] = []
        var next = first
        while next < min(first + Limits.batch, plan.rows.count), output.count < Limits.part {
            if let row = try reader.row(fetch.entity, plan.rows[next]) {
                try encoder.append(row, to: &output)
                output.append(UInt8(ascii: "\n"))
            }
            next += 1
        }
        return (output, next)
    }
}
