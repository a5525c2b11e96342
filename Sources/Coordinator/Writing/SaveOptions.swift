/// The options of a context's save.
public struct SaveOptions: Hashable, Sendable {
    /// A name for the save, of 1 to 200 bytes of UTF-8: repeated under it, where its outcome was
    /// unknown, it is not done again, for as long as history has it. Nil for none.
    public var saveID: String?
    /// Whether it decides over unresolved conflicts between nodes on what it writes. Without, such
    /// a save is refused (`unresolvedConflict`).
    public var resolvesConflicts: Bool
    /// Whether it may save more than ``SaveRequest/Bounds/operations`` objects. Other saves wait while
    /// they are written.
    public var isBulk: Bool
    /// Why it is made, in the author's words, of 1 to 1,000 bytes of UTF-8; history keeps it, and the
    /// conflicts that the save resolves tell it (``ConflictDecision/note``). Nil for none.
    public var note: String?

    /// Describes a save.
    public init(
        saveID: String? = nil, resolvesConflicts: Bool = false, isBulk: Bool = false,
        note: String? = nil
    ) {
        self.saveID = saveID
        self.resolvesConflicts = resolvesConflicts
        self.isBulk = isBulk
        self.note = note
    }
}
