public import Coordinator

/// A user's choices for the runs of a simulation; everything else is drawn from the seed.
public struct SimulationOptions: Sendable {
    /// The model of the nodes; nil for one with structures and policies drawn per seed.
    public var model: ManagedObjectModel?
    /// How many nodes a cluster may have; the product is tried with 2 to 7.
    public var nodes: ClosedRange<Int> = 2...7
    /// Whether there are faults at all.
    public var hasFaults = true
    /// Whether about half of the drawn models have uniqueness constraints, and clients work on
    /// unique keys; all else of a seed's plan is the same with them as without.
    public var hasUniqueKeys = true
    /// Whether in about a quarter of the runs nodes join, leave and are retired; all else of a
    /// seed's plan is the same with them as without.
    public var hasMembershipChanges = true
    /// Whether in about a sixth of the runs with drawn models nodes are opened with the next model,
    /// one after the other; all else of a seed's plan is the same with that as without.
    public var hasModelChanges = true
    /// Whether in a third of the runs some nodes keep little history and take copies of others'
    /// stores; all else of a seed's plan is the same.
    public var hasTransfers = true
    /// Whether some nodes join their store with a copy by rows, where their log would do, too; all else
    /// of a seed's plan is the same, though not what comes of it.
    public var hasJoins = true
    /// Whether in a quarter of the runs to-manys have least and greatest counts; all else of a seed's
    /// plan is the same, though not what comes of it.
    public var hasCounts = true
    /// Whether in a sixth of the runs some to-ones must lead to something; all else of a seed's plan is
    /// the same, though not what comes of it.
    public var hasDemanded = true
    /// Whether attributes may have a merge policy of the application's own.
    public var hasNamedPolicies = true
    /// Whether somebody reads histories by name, and some are kept for a short time, in runs in which
    /// some are short.
    public var hasConsumers = true
    /// Whether in half of the runs with a next model and unique keys that one holds objects to a
    /// constraint which the first has not.
    public var hasAddedConstraints = true
    /// Whether three or four nodes join at once, in some runs in which nodes join.
    public var hasCrowds = true
    /// Whether in a sixth of the runs in which nobody joins or departs some nodes never reach each
    /// other; all else of a seed's plan is the same, though not what comes of it.
    public var hasPartialMeshes = true
    /// Whether some journals keep few closed conflicts, in runs in which some histories are short.
    public var hasShortJournals = true
    /// Whether half of the backups are made by the running node, as its command does, and not of its
    /// files; all else of a seed's plan is the same.
    public var hasBackups = true
    /// Whether in a fifth of the runs with faults nodes come back with less than they had in the midst
    /// of work, and go on at once; all else of a seed's plan is the same, though not what comes of it.
    public var hasReturns = true
    /// Whether some nodes have room for few writers whose transactions wait, and are given few values
    /// to apply at once; all else of a seed's plan is the same, though not what comes of it.
    public var hasSmallQueues = true
    /// Whether in an eighth of the runs with a drawn model that has no next one nodes walk through two
    /// to four models by random changes, and are given others that they refuse; all else of a seed's
    /// plan is the same, though not what comes of it.
    public var hasModelWalks = true
    /// The events of the plan that happen, by their places; nil for all.
    public var events: [Int]?
    /// Whether every event is written down, one legible line each.
    public var isTraced = false
    /// How long a healed cluster may take to converge, in virtual milliseconds.
    public var convergenceMilliseconds: UInt64 = 180_000

    /// The defaults.
    public init() {}
}
