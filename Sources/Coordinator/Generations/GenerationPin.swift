import GRDB
import Synchronization

/// Holds one generation of a store readable: a read transaction on a connection of its own.
///
/// Released with its last reference. While it lives, the write-ahead log keeps what it shows.
/// Usable from any thread; reads through one pin take turns.
public final class GenerationPin: Sendable {
    /// The generation that is held.
    public let token: QueryGenerationToken
    private let snapshot: Mutex<DatabaseSnapshot?>
    private let pinnedAt: Mutex<UInt64>

    init(
        token: QueryGenerationToken, snapshot: DatabaseSnapshot, pinnedAtMilliseconds: UInt64
    ) {
        self.token = token
        self.snapshot = Mutex(snapshot)
        pinnedAt = Mutex(pinnedAtMilliseconds)
    }

    /// When it was taken, in milliseconds of the coordinator's monotonic clock; by whoever took it
    /// last, where several share it.
    public var pinnedAtMilliseconds: UInt64 { pinnedAt.withLock(\.self) }

    /// Whether the generation was given up.
    public var isExpired: Bool { snapshot.withLock { $0 == nil } }

    /// Whoever shares it has it for as long as one who takes it first.
    func renew(at milliseconds: UInt64) {
        pinnedAt.withLock { $0 = max($0, milliseconds) }
    }

    /// Gives the generation up: from now on reads throw, and never answer from another.
    func expire() { snapshot.withLock { $0 = nil } }

    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        guard let snapshot = snapshot.withLock({ $0 }) else {
            throw CoordinatorError(
                .queryGenerationExpired,
                "Generation \(token.generation) was given up; pin a newer one.")
        }
        return try snapshot.read(body)
    }
}

/// The pins of a store, so that all who pin one generation share one.
///
/// Thread-safe.
final class PinRegistry: Sendable {
    enum Limits {
        /// Pins of different generations at once: each is a connection with its own cache.
        static let pins = 128
    }

    private struct Entry {
        weak var pin: GenerationPin?
    }

    private let entries = Mutex<[UInt64: Entry]>([:])

    /// The living pin of a generation; nil where none is.
    func pin(generation: UInt64) -> GenerationPin? {
        entries.withLock { entries in
            guard let pin = entries[generation]?.pin, !pin.isExpired else { return nil }
            return pin
        }
    }

    /// Adds a pin, or gives the one of that generation that is there already.
    func add(_ pin: GenerationPin) throws -> GenerationPin {
        try entries.withLock { entries in
            entries = entries.filter { $0.value.pin.map { !$0.isExpired } ?? false }
            if let shared = entries[pin.token.generation]?.pin {
                shared.renew(at: pin.pinnedAtMilliseconds)
                return shared
            }
            guard entries.count < Limits.pins else {
                throw CoordinatorError(
                    .limitExceeded, "\(Limits.pins) generations are pinned already; release some.")
            }
            entries[pin.token.generation] = Entry(pin: pin)
            return pin
        }
    }

    /// The living pins, oldest generation first.
    var living: [GenerationPin] {
        entries.withLock { entries in
            entries.values.compactMap(\.pin).filter { !$0.isExpired }
        }.sorted { $0.token.generation < $1.token.generation }
    }
}
