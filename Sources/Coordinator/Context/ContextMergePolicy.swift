public import Merge

/// How a context settles what has moved on since it fetched it, as NSMergePolicy. Subclass it to decide
/// yourself.
///
/// A save that meets conflicts calls ``resolve(mergeConflicts:in:)`` on the context's queue, outside
/// the store's writer, so that others go on saving. A policy decides each conflict in one of two ways:
/// it changes the context's objects so that none is left (refreshes with their changes kept, deletes, gives
/// another key), or it hands the conflict to `super`, which settles it as ``merge`` says. Then the save is
/// tried once more. What others have saved meanwhile is a new conflict, for at most
/// ``ContextMergePolicy/attempts`` attempts, each with `willSave` and validation. A conflict that is still
/// as it was when the policy was told of it makes the save fail; so does an error that a policy throws.
/// What it changed stays. While it is asked, a pinned context reads the newest generation.
///
/// Between nodes the entities' ``Merge/MergePolicy`` counts, not this. Source: NSMergePolicy.
///
/// Several contexts may share a policy, and call it on their queues; what a subclass adds must bear that.
// Unchecked, because only a final class can be checked: this one's state is immutable.
open class ContextMergePolicy: @unchecked Sendable {
    /// As NSErrorMergePolicy: the save fails.
    public static let error = ContextMergePolicy(merge: .error)
    /// The same: a context compares objects as a whole in either case.
    public static let errorByRow = ContextMergePolicy(merge: .errorByRow)
    /// As NSMergeByPropertyStoreTrumpMergePolicy.
    public static let mergeByPropertyStoreTrump = ContextMergePolicy(
        merge: .mergeByPropertyStoreTrump)
    /// As NSMergeByPropertyObjectTrumpMergePolicy.
    public static let mergeByPropertyObjectTrump = ContextMergePolicy(
        merge: .mergeByPropertyObjectTrump)
    /// As NSRollbackMergePolicy.
    public static let rollback = ContextMergePolicy(merge: .rollback)
    /// As NSOverwriteMergePolicy.
    public static let overwrite = ContextMergePolicy(merge: .overwrite)

    /// The most attempts that one save makes.
    public static let attempts = 100

    /// What it does with conflicts that no subclass decides.
    public let merge: MergePolicy

    /// Makes a policy that settles as one of Core Data's.
    ///
    /// - Precondition: Not `named`, which is for the values of attributes between nodes.
    public init(merge: MergePolicy, file: StaticString = #fileID, line: UInt = #line) {
        if case .named(let policy) = merge {
            misuse(
                "Merge policy \(policy.text) is for attributes in a model, not for a context.",
                at: SourcePlace(file, line))
        }
        self.merge = merge
    }

    /// Decides the conflicts of a save: first those of versions, then those of keys.
    ///
    /// - Parameters:
    ///   - conflicts: What the last attempt met and no former one: conflicts of versions, or, if there are
    ///     none, of keys.
    ///   - context: The context that saves. It must not be saved here.
    /// - Throws: What is to make the save fail.
    open func resolve(
        mergeConflicts conflicts: SaveConflicts, in context: ManagedObjectContext
    ) throws {
        if !conflicts.optimisticLocking.isEmpty {
            try resolve(optimisticLockingConflicts: conflicts.optimisticLocking, in: context)
        }
        if !conflicts.constraint.isEmpty {
            try resolve(constraintConflicts: conflicts.constraint, in: context)
        }
    }

    /// Decides conflicts of objects that have another version by now, or are gone.
    ///
    /// - Parameters:
    ///   - conflicts: One an object.
    ///   - context: The context that saves; its `object(with:)` gives a conflict's object.
    /// - Throws: ``CoordinatorError`` `mergeConflict` where ``merge`` leaves conflicts unresolved.
    /// - Precondition: Called while a save asks this policy.
    open func resolve(
        optimisticLockingConflicts conflicts: [MergeConflict], in context: ManagedObjectContext
    ) throws {
        try PolicySave(context: context).settle(conflicts, by: merge)
    }

    /// Decides conflicts of objects that would have one unique key.
    ///
    /// - Parameters:
    ///   - conflicts: One for each set of objects.
    ///   - context: The context that saves.
    /// - Throws: ``CoordinatorError`` `constraintConflict` where ``merge`` leaves conflicts unresolved.
    /// - Precondition: Called while a save asks this policy.
    open func resolve(
        constraintConflicts conflicts: [ConstraintConflict], in context: ManagedObjectContext
    ) throws {
        try PolicySave(context: context).settle(conflicts, by: merge)
    }

    /// Whether no subclass decides.
    var isPlain: Bool { type(of: self) == ContextMergePolicy.self }
}

extension ContextMergePolicy: Equatable {
    /// Policies of Core Data are equal if they do the same, those of an application if they are the
    /// same instance.
    public static func == (one: ContextMergePolicy, other: ContextMergePolicy) -> Bool {
        one === other || one.isPlain && other.isPlain && one.merge == other.merge
    }
}

/// What an attempt at a save met.
public struct SaveConflicts: Hashable, Sendable {
    /// Objects that have another version by now, or are gone.
    public let optimisticLocking: [MergeConflict]
    /// Objects that would have one unique key.
    public let constraint: [ConstraintConflict]

    /// Whether there are none.
    public var isEmpty: Bool { optimisticLocking.isEmpty && constraint.isEmpty }
}
