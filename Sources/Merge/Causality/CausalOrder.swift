/// How two vectors stand to each other. There are four answers, never three: a partial order
/// squeezed into three silently turns *concurrent* into *equal*.
public enum CausalOrder: Hashable, Sendable {
    /// Both know exactly the same.
    case equal
    /// The left knows less: it happened before.
    case before
    /// The left knows more: it happened after.
    case after
    /// Each knows something the other does not.
    case concurrent
}
