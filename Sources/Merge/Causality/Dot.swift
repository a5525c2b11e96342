/// The name of one transaction: an actor and its running number.
///
/// An actor's sequences start at 1 and have no gaps. A dot names one content for ever
/// (DESIGN, law 11).
public struct Dot: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The writer of the transaction.
    public let actor: ActorID
    /// The running number among the actor's transactions, from 1.
    public let sequence: UInt64

    /// How many bits the sequence of any transaction has at the most: stores keep it in one integer
    /// with the number of its actor. A thousand saves a second come to it in 35 years.
    public static let sequenceBits = 40

    /// Names a transaction.
    public init(actor: ActorID, sequence: UInt64) {
        self.actor = actor
        self.sequence = sequence
    }

    /// Orders by actor, then sequence. It says nothing of causality: see ``CausalOrder``.
    public static func < (left: Self, right: Self) -> Bool {
        left.actor == right.actor ? left.sequence < right.sequence : left.actor < right.actor
    }

    /// `NODE.INCARNATION-SEQUENCE`, for instance `2.6f3a91c04be1d277-117`.
    public var description: String { "\(actor)-\(sequence)" }

    /// Reads what ``description`` prints; nil where it is anything else.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let actor = ActorID(parts[0]), let sequence = UInt64(parts[1]),
            sequence > 0
        else { return nil }
        self.init(actor: actor, sequence: sequence)
        // Integer parsing also takes signs and leading zeros.
        guard description.utf8.elementsEqual(text.utf8) else { return nil }
    }
}
