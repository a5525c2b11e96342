/// A write's effect on a row's existence.
package enum Existence: Hashable, Sendable {
    /// The row is there. Said by every insert and update under a property-grained policy.
    case alive
    /// The row is there with these values, in the entity's canonical order. Said under a
    /// row-grained policy, where existence and values are one register.
    case whole([PropertyValue])
    /// The row is deleted.
    case dead

    /// Whether the write says that the row is there.
    package var isAlive: Bool { self != .dead }
}
