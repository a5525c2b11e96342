// Advice about indexes as JSON.

package import Coordinator

/// Writes what `GET /v1/advice` answers.
package enum AdviceRenderer {
    /// The answer's body.
    ///
    /// - Parameters:
    ///   - advice: the indexes, in order.
    ///   - observed: how many shapes of requests they were looked for.
    ///   - dropped: how many times a shape was forgotten.
    package static func json(
        _ advice: [IndexAdvice], observed: Int, dropped: UInt64
    ) -> JSONValue {
        [
            "indexes": .array(advice.map(json)), "observed": .integer(Int64(observed)),
            "dropped": ValueRenderer.count(dropped),
        ]
    }

    private static func json(_ advice: IndexAdvice) -> JSONValue {
        [
            "entity": .string(advice.entity),
            "index": advice.index.jsonValue(),
            "rows": .integer(Int64(advice.rows)), "bytes": .integer(Int64(advice.bytes)),
            "requests": .array(advice.served.map(json)),
        ]
    }

    private static func json(_ served: IndexAdvice.Served) -> JSONValue {
        let shape = served.request.shape
        return [
            "equal": texts(shape.equal), "ranged": texts(shape.ranged),
            "sort": texts(shape.sort.map { ($0.isAscending ? "" : "-") + $0.property }),
            "text": .string(shape.description),
            "count": ValueRenderer.count(served.request.count),
            "milliseconds": ValueRenderer.count(served.request.milliseconds),
            "rows": ValueRenderer.count(served.request.rows),
            "before": texts(served.planBefore.lines), "after": texts(served.planAfter.lines),
        ]
    }

    private static func texts(_ texts: [String]) -> JSONValue { .array(texts.map { .string($0) }) }
}
