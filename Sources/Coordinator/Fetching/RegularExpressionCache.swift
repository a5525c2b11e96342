import Synchronization

/// Compiled patterns, so that a scan compiles its pattern once. From any thread.
final class RegularExpressionCache: Sendable {
    /// The one of this process.
    static let shared = RegularExpressionCache()

    /// How many patterns are kept: more than a model and the queries in flight have.
    private static let capacity = 64

    private struct Key: Hashable {
        /// Its bytes: Swift takes texts for equal that patterns tell apart, as é in one scalar and in two.
        let pattern: [UInt8]
        let options: ComparisonOptions
    }

    private let expressions = Mutex<[Key: RegularExpression]>([:])

    /// The compiled pattern; nil where it cannot be compiled.
    func expression(_ pattern: String, _ options: ComparisonOptions) -> RegularExpression? {
        let key = Key(pattern: Array(pattern.utf8), options: options)
        if let known = expressions.withLock({ $0[key] }) { return known }
        guard let compiled = try? RegularExpression(pattern, options: options) else { return nil }
        expressions.withLock {
            // Emptying the cache when it is full is crude, and rarer than any bookkeeping would be.
            if $0.count >= Self.capacity { $0.removeAll(keepingCapacity: true) }
            $0[key] = compiled
        }
        return compiled
    }
}
