// The log of a store's file, as GET /v1/history gives a node's.

import Coordinator
import Merge

extension StoreInterface {
    /// The bounds of one answer, which are a node's.
    private enum HistoryBounds {
        /// Transactions, unless fewer are asked for.
        static let transactions = 10_000
        /// Bytes of transactions; the first always is in it.
        static let bytes = 8 << 20
        /// Transactions read at once. Their bytes say nothing of what they changed without writing it.
        static let page = 10
        /// What such a change counts for.
        static let derivedBytes = 128
    }

    /// The transactions after a token, or from the log's beginning on, and the token to go on with.
    ///
    /// What a token has seen is told by its vector alone: one of any node of the cluster will do.
    ///
    /// - Throws: ``CommandFailure``, and ``CoordinatorError`` with `queryGenerationExpired` where
    ///   some of what comes after the token was purged.
    func history(_ target: StoreRequest) throws -> JSONValue {
        let limit = min(try target.count("limit") ?? .max, HistoryBounds.transactions)
        let after = try target.token("after")
        return try coordinator.read { reader in
            let encoder = encoder(reader)
            let beginnings = try reader.beginnings()
            let after = after?.completed(by: beginnings)
            var place = try Self.place(after: after, reader)
            var transactions: [JSONValue] = []
            var bytes = 0
            while transactions.count < limit, bytes < HistoryBounds.bytes {
                let page = try reader.history(
                    afterPosition: place.position,
                    limit: min(limit - transactions.count, HistoryBounds.page),
                    byteLimit: HistoryBounds.bytes)
                guard let last = page.last else { break }
                var vector = place.versionVector
                for logged in page {
                    vector.join(logged.encoded.transaction.seen)
                    vector.advance(to: logged.encoded.dot)
                    // Another node's token may have seen some of what comes after its place here.
                    if let after, after.versionVector.contains(logged.encoded.dot) { continue }
                    let derived = try reader.derivedChanges(of: logged.encoded.dot)
                    transactions.append(
                        .object(
                            encoder.transaction(logged.encoded.transaction, derived: derived)))
                    bytes += logged.encoded.size + derived.count * HistoryBounds.derivedBytes
                }
                place = QueryGenerationToken(
                    store: place.store, generation: last.generation, position: last.position,
                    versionVector: vector, beginnings: beginnings)
            }
            return ["transactions": .array(transactions), "token": .string(place.text)]
        }
    }

    /// The place in this log up to which whoever has a token has read.
    private static func place(
        after: QueryGenerationToken?, _ reader: StoreReader
    ) throws -> QueryGenerationToken {
        // What is gone from the beginning counts as seen, or the next page would miss it.
        let known = try after?.versionVector ?? reader.purgedVector
        guard after?.isWhole ?? true,
            let position = after == nil ? 0 : try reader.position(seen: known)
        else {
            throw CoordinatorError(
                .queryGenerationExpired,
                "The history after that token has been purged here; fetch the objects anew.")
        }
        return QueryGenerationToken(
            store: try reader.token.store, generation: 0, position: position,
            versionVector: known, beginnings: try reader.beginnings())
    }
}
