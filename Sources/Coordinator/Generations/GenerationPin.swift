import GRDB
public import Merge
import Synchronization

/// Holds one generation of a store readable: a read transaction on a connection of its own.
///
/// Released with its last reference. While it lives, the write-ahead log keeps what it shows.
/// Usable from any thread; reads through one pin take turns.
public final class GenerationPin: Sendable {
    /// The generation that is held.
    public let token: QueryGenerationToken
    /// The digest kept with it. It is known without a read, which would wait for the pin's turn.
    public let digest: ProjectionDigest
    private let snapshot: Mutex<(any DatabaseReader)?>
    private let pinnedAt: Mutex<UInt64>

    init(
        token: QueryGenerationToken, digest: ProjectionDigest, snapshot: any DatabaseReader,
        pinnedAtMilliseconds: UInt64
    ) {
        self.token = token
        self.digest = digest
        self.snapshot = Mutex(snapshot)
        pinnedAt = Mutex(pinnedAtMilliseconds)
    }

    /// When it was taken, in milliseconds of the coordinator's monotonic clock. If several share
    /// it, when the last one took it.
    public var pinnedAtMilliseconds: UInt64 { pinnedAt.withLock(\.self) }

    /// Whether the generation was given up.
    public var isExpired: Bool { snapshot.withLock { $0 == nil } }

    /// Each that shares it may keep it for the same time as the first.
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

    private struct Entries {
        /// Those that all share who pin their generation.
        var shared: [UInt64: Entry] = [:]
        /// Those of one reader each.
        var apart: [Entry] = []

        mutating func forgetEnded() {
            shared = shared.filter { $0.value.pin.map { !$0.isExpired } ?? false }
            apart.removeAll { $0.pin.map(\.isExpired) ?? true }
        }

        var pins: [GenerationPin] {
            (shared.values.map(\.pin) + apart.map(\.pin)).compactMap(\.self)
        }
    }

    private let entries = Mutex(Entries())

    /// The living pin of a generation; nil where none is.
    func pin(generation: UInt64) -> GenerationPin? {
        entries.withLock { entries in
            guard let pin = entries.shared[generation]?.pin, !pin.isExpired else { return nil }
            return pin
        }
    }

    /// Adds a pin, or gives the one of that generation that is there already.
    func add(_ pin: GenerationPin) throws -> GenerationPin {
        try entries.withLock { entries in
            entries.forgetEnded()
            if let shared = entries.shared[pin.token.generation]?.pin {
                shared.renew(at: pin.pinnedAtMilliseconds)
                return shared
            }
            try Self.seeRoom(in: entries)
            entries.shared[pin.token.generation] = Entry(pin: pin)
            return pin
        }
    }

    /// Adds a pin that nobody else is given.
    func add(apart pin: GenerationPin) throws {
        try entries.withLock { entries in
            entries.forgetEnded()
            try Self.seeRoom(in: entries)
            entries.apart.append(Entry(pin: pin))
        }
    }

    private static func seeRoom(in entries: Entries) throws {
        guard entries.shared.count + entries.apart.count < Limits.pins else {
            throw CoordinatorError(
                .limitExceeded, "\(Limits.pins) generations are pinned already; release some.")
        }
    }

    /// The living pins, oldest generation first.
    var living: [GenerationPin] {
        entries.withLock { entries in
            entries.pins.filter { !$0.isExpired }
        }.sorted { $0.token.generation < $1.token.generation }
    }
}
