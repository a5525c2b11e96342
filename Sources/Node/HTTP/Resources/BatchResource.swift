// POST /v1/batch.

internal import Coordinator
internal import Merge
internal import NIOCore

/// Inserts, updates and deletes of many objects.
struct BatchResource: Sendable {
    let services: HTTPServices

    enum Limits {
        /// The most objects that an answer names.
        static let named = 100_000
    }

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let batch = try ClientBatch(
            try request.json(maximumBytes: services.maximumBodyBytes), model: services.model,
            cluster: services.cluster)
        if batch.isDryRun {
            return .json([
                "count": .integer(Int64(try await count(batch))), "transactions": .integer(0),
            ])
        }
        if batch.request.resultType == .objectIDs {
            let count = try await count(batch)
            guard count <= Limits.named else {
                throw HTTPError(
                    422, "answerTooLarge",
                    "There are \(count) objects, and an answer names \(Limits.named) at most. Nothing "
                        + "was done; ask for their count.",
                    details: ["limit": .integer(Int64(Limits.named))])
            }
        }
        if request.wantsLines { return lines(batch, while: request.isStillAllowed) }
        do {
            let result = try await services.backend.execute(
                batch.request, author: batch.author, contextName: batch.contextName
            ) { _ in }
            return .json(.object(members(result)))
        } catch let error as BatchError { throw await failure(error) }
    }

    private func count(_ batch: ClientBatch) async throws -> Int {
        let coordinator = services.coordinator
        return try await services.blocking { try coordinator.count(of: batch.request) }
    }

    private func members(_ result: BatchResult) -> JSONObject {
        var members: JSONObject = [
            "count": .integer(Int64(result.count)),
            "transactions": .integer(Int64(result.transactions)),
            "token": ValueRenderer.text(result.token?.text),
        ]
        if let objects = result.objectIDs {
            members["objects"] = .array(objects.map { .string(services.renderer.uri($0)) })
        }
        return members
    }

    /// A failure after a part was done, which it tells.
    private func failure(_ error: BatchError) async -> HTTPError {
        var failure = await services.answer(to: error.reason)
        failure.details["done"] = .object(members(error.done))
        return failure
    }

    /// A line after each transaction, and the outcome at the end. A client that goes ends the request
    /// after the transaction under way.
    private func lines(
        _ batch: ClientBatch, while isStillAllowed: @escaping @Sendable () -> Bool
    ) -> HTTPAnswer {
        HTTPAnswer(
            contentType: "application/x-ndjson",
            body: .stream { write in
                let (steps, continuation) = AsyncStream.makeStream(
                    of: BatchResult.self, bufferingPolicy: .bufferingNewest(1))
                let backend = services.backend
                let work = Task {
                    defer { continuation.finish() }
                    return try await backend.execute(
                        batch.request, author: batch.author, contextName: batch.contextName
                    ) { step in
                        guard isStillAllowed() else { throw CancellationError() }
                        continuation.yield(step)
                    }
                }
                do {
                    for await step in steps {
                        var line = members(step)
                        line["objects"] = nil
                        try await write(ByteBuffer(bytes: Self.line(line)))
                    }
                } catch {
                    work.cancel()
                    _ = try? await work.value
                    throw error
                }
                var last: JSONObject
                do {
                    last = members(try await work.value)
                    last["end"] = .boolean(true)
                } catch {
                    let answer =
                        if let error = error as? BatchError { await failure(error) } else {
                            await services.answer(to: error)
                        }
                    last = try JSONParser.parse(answer.body).object ?? JSONObject()
                    last["status"] = .integer(Int64(answer.status))
                }
                try await write(ByteBuffer(bytes: Self.line(last)))
            })
    }

    private static func line(_ object: JSONObject) -> [UInt8] {
        JSONWriter.bytes(of: .object(object)) + [UInt8(ascii: "\n")]
    }
}
