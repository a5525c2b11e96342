/// An element of a sequence of observations: a value, and how many were lost before it.
///
/// The members of the value can be read from the element itself: `commit.openedConflicts`.
@dynamicMemberLookup
public struct Observed<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// How many values came between the element before and this one and were dropped, because too many
    /// waited for the reader. If it is above 0, read again what the values would have told.
    public let missed: Int

    /// A member of the value.
    public subscript<Member>(dynamicMember member: KeyPath<Value, Member>) -> Member {
        value[keyPath: member]
    }
}

/// How much waits for the reader of a sequence of observations. Beyond it the earliest are dropped.
public enum ObservationBounds {
    /// Values.
    public static let values = 256
    /// Objects and conflicts that they name in all. One value may have more, if it waits alone.
    public static let objects = 100_000
}
