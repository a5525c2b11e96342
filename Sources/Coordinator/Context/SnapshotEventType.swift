/// Why an object has other values than before. As NSSnapshotEventType.
public struct SnapshotEventType: OptionSet, Hashable, Sendable {
    /// The events as bits.
    public let rawValue: UInt
    /// Makes a set of bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// An insert was undone.
    public static let undoInsertion = SnapshotEventType(rawValue: 1 << 1)
    /// A delete was undone.
    public static let undoDeletion = SnapshotEventType(rawValue: 1 << 2)
    /// A change was undone.
    public static let undoUpdate = SnapshotEventType(rawValue: 1 << 3)
    /// The context was rolled back.
    public static let rollback = SnapshotEventType(rawValue: 1 << 4)
    /// The object was refreshed with values of the store.
    public static let refresh = SnapshotEventType(rawValue: 1 << 5)
    /// A save left the object other values than it had.
    public static let mergePolicy = SnapshotEventType(rawValue: 1 << 6)
}
