// Generations that clients hold readable, for as long as they keep using them.

internal import Coordinator
internal import Merge
internal import Synchronization

/// The pins of remote clients, each with a lease that every use renews. Thread-safe.
///
/// Clients that pin the same generation share a pin. It is given up when all have released it, or
/// when the lease ends unused.
final class GenerationLeases: Sendable {
    enum Limits {
        /// Leases at once: the coordinator has no more pins to give.
        static let leases = 128
        /// The longest a lease may be, in seconds.
        static let seconds = 3_600
    }

    private struct Lease {
        let pin: GenerationPin
        var holders: Int
        var length: Duration
        var end: ContinuousClock.Instant
    }

    private let leases = Mutex<[QueryGenerationToken: Lease]>([:])

    /// How many generations are leased.
    var count: Int { leases.withLock { $0.count } }

    /// Holds a pin for its client.
    ///
    /// - Throws: ``CoordinatorError``: `limitExceeded`.
    func add(_ pin: GenerationPin, seconds: Int) throws {
        sweep()
        let length = Duration.seconds(seconds)
        let end = ContinuousClock.now + length
        try leases.withLock { leases in
            if var lease = leases[pin.token] {
                lease.holders += 1
                lease.length = max(lease.length, length)
                lease.end = max(lease.end, end)
                leases[pin.token] = lease
                return
            }
            guard leases.count < Limits.leases else {
                throw CoordinatorError(
                    .limitExceeded,
                    "\(Limits.leases) generations are pinned already; release some.")
            }
            leases[pin.token] = Lease(pin: pin, holders: 1, length: length, end: end)
        }
    }

    /// The pin of a token, its lease renewed.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired`.
    func use(_ token: QueryGenerationToken) throws -> GenerationPin {
        sweep()
        let now = ContinuousClock.now
        return try leases.withLock { leases in
            guard var lease = leases[token], !lease.pin.isExpired else {
                leases[token] = nil
                throw Self.expired(token)
            }
            lease.end = max(lease.end, now + lease.length)
            leases[token] = lease
            return lease.pin
        }
    }

    /// Releases one holder's share.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where nobody holds it.
    func release(_ token: QueryGenerationToken) throws {
        sweep()
        try leases.withLock { leases in
            guard var lease = leases[token] else { throw Self.expired(token) }
            lease.holders -= 1
            leases[token] = lease.holders > 0 ? lease : nil
        }
    }

    /// Gives up what nobody has used for the length of its lease.
    func sweep() {
        let now = ContinuousClock.now
        leases.withLock { leases in
            leases = leases.filter { $0.value.end > now && !$0.value.pin.isExpired }
        }
    }

    /// Gives up all.
    func releaseAll() { leases.withLock { $0 = [:] } }

    private static func expired(_ token: QueryGenerationToken) -> CoordinatorError {
        CoordinatorError(
            .queryGenerationExpired,
            "Generation \(token.generation) is not pinned here, or its lease has ended; pin a "
                + "new one with POST /v1/generations.")
    }
}
