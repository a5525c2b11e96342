import Simulation
import Testing

/// A run that once broke a law.
struct RegressionCase: Sendable, CustomTestStringConvertible {
    /// What plans drew by then: each of these with all before it.
    enum Plans: Int, Comparable {
        case first
        /// Unique keys.
        case uniqueKeys
        /// Nodes that come and go, and come to have the next model.
        case changes
        /// Stores that are joined by their rows where logs would have done.
        case joins
        /// Least and greatest counts of to-manys.
        case counts
        /// Consumers of history, added constraints, crowds of joiners, partial meshes, short journals
        /// and backups by the running node.
        case consumersToBackups
        /// Nodes that come back with less and go on at once.
        case returns
        /// To-ones that must lead to something.
        case demanded
        /// Nodes with room for few writers whose transactions wait.
        case smallQueues
        /// Nodes that walk through several models.
        case modelWalks
        /// Attributes with a merge policy of the application's own.
        case namedPolicies

        static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    }

    var seed: UInt64
    var plans: Plans

    var testDescription: String { "\(seed)" }

    /// Has the plan drawn as it was when the run failed.
    var options: SimulationOptions {
        var options = SimulationOptions()
        options.hasUniqueKeys = plans >= .uniqueKeys
        options.hasMembershipChanges = plans >= .changes
        options.hasModelChanges = plans >= .changes
        options.hasJoins = plans >= .joins
        options.hasCounts = plans >= .counts
        options.hasConsumers = plans >= .consumersToBackups
        options.hasAddedConstraints = plans >= .consumersToBackups
        options.hasCrowds = plans >= .consumersToBackups
        options.hasPartialMeshes = plans >= .consumersToBackups
        options.hasShortJournals = plans >= .consumersToBackups
        options.hasBackups = plans >= .consumersToBackups
        options.hasReturns = plans >= .returns
        options.hasDemanded = plans >= .demanded
        options.hasSmallQueues = plans >= .smallQueues
        options.hasModelWalks = plans >= .modelWalks
        options.hasNamedPolicies = plans >= .namedPolicies
        return options
    }
}
