internal import Coordinator

/// The models that the nodes of a run are opened with, one after the other, and those that they are
/// to refuse.
struct Editions {
    /// A model that a store of one of them refuses at its opening.
    struct Trial {
        /// By which of them the store is.
        let base: Int
        /// The latest edition that the store must have begun with: it refuses by that as well.
        let known: Int
        /// What it is to refuse.
        let model: ManagedObjectModel
        /// What is wrong with it.
        let fault: ModelWalk.Fault
    }

    /// From the first to the last, each of which can be reached from all before it; then those that
    /// deviate.
    var models: [ManagedObjectModel]
    /// By a deviating edition: in the place of which one a node is given it. They differ in a default
    /// that stands for what former models lack, so that their nodes refuse each other.
    var deviations: [Int: Int] = [:]
    /// Models to be refused.
    var trials: [Trial] = []
    /// The rare paths that lead to each of them from the one before.
    var beacons: [[Beacon]]

    /// The place of the last.
    var last: Int { models.count - 1 - deviations.count }
}
