// Faults of a link's bytes.
//
// Values only; may be handed to any thread.

/// One of the two directions of a connection through a proxy.
public enum LinkDirection: Hashable, Sendable, CaseIterable {
    /// From the side that connected to the target.
    case towardsTarget
    /// From the target to the side that connected.
    case fromTarget
}

/// The faults of one direction; the other direction has its own.
///
/// All of it is bounded: a direction keeps at most 256 KiB and one read of bytes that wait, and
/// reads no further until they have passed.
public struct LinkFault: Hashable, Sendable {
    /// Whether bytes pass at all.
    public enum Passage: Hashable, Sendable {
        /// They pass.
        case open
        /// They wait until the link is open again; the sender sees its buffers fill up.
        case stalled
        /// They are taken and forgotten; the sender sees nothing. A connection that has lost bytes
        /// is reset when its link opens again, because no network delivers a stream with a hole in
        /// it.
        case lost
    }

    /// A narrow pipe: so many bytes, then a pause.
    public struct Trickle: Hashable, Sendable {
        /// Bytes that pass at a time, at least 1.
        public let bytes: Int
        /// Milliseconds from one portion to the next, 1...60,000.
        public let milliseconds: Int

        /// Describes a narrow pipe; what is out of bounds is taken for the nearest bound.
        public init(bytes: Int, everyMilliseconds milliseconds: Int) {
            self.bytes = max(1, bytes)
            self.milliseconds = min(max(1, milliseconds), 60_000)
        }
    }

    /// Damage that TCP's checksum has missed: every n-th byte is changed.
    public struct Flips: Hashable, Sendable {
        /// The distance from one changed byte to the next, at least 1.
        public let every: Int
        /// Decides where the first one is and which bits change; each connection of a proxy has
        /// its own sequence of that seed.
        public let seed: UInt64

        /// Describes damage; a distance below 1 is taken for 1.
        public init(every: Int, seed: UInt64) {
            self.every = max(1, every)
            self.seed = seed
        }
    }

    /// Whether bytes pass at all.
    public var passage: Passage
    /// How long each byte is under way in milliseconds, 0...60,000; their order is kept.
    public let delayMilliseconds: Int
    /// How narrow the pipe is; nil for no limit.
    public let trickle: Trickle?
    /// Which bytes are changed; nil for none.
    public let flips: Flips?

    /// A direction without faults.
    public static let none = LinkFault()

    /// Describes what happens to the bytes of a direction.
    ///
    /// - Parameters:
    ///   - passage: whether they pass at all.
    ///   - delayMilliseconds: how long each is under way; out of 0...60,000 it is taken for the
    ///     nearest bound.
    ///   - trickle: how narrow the pipe is.
    ///   - flips: which bytes are changed.
    public init(
        passage: Passage = .open, delayMilliseconds: Int = 0, trickle: Trickle? = nil,
        flips: Flips? = nil
    ) {
        self.passage = passage
        self.delayMilliseconds = min(max(0, delayMilliseconds), 60_000)
        self.trickle = trickle
        self.flips = flips
    }
}
