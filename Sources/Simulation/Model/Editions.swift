internal import Coordinator

/// The models that the nodes of a run are opened with, one after the other, and those that they are
/// to refuse.
struct Editions {
    /// A model that a store of one of them refuses at its opening.
    struct Trial {
        /// By which of them the store is.
        let base: Int
        /// Those that it must have had one of: it refuses by what it knows.
        let known: Set<Int>
        /// The model to refuse.
        let model: ManagedObjectModel
        /// Its fault.
        let fault: ModelWalk.Fault
    }

    /// The place of a deviating edition.
    struct Deviation {
        /// The edition whose place it takes at a node.
        let base: Int
        /// Whether only a new store takes it.
        let isNew: Bool
    }

    /// From the first to the last. Each can be reached from all before it. Then those that deviate.
    var models: [ManagedObjectModel]
    /// By edition: what deviates, so that its node and those of the others refuse each other.
    var deviations: [Int: Deviation] = [:]
    /// Models to be refused.
    var trials: [Trial] = []
    /// The rare paths that lead to each of them from the one before.
    var beacons: [[Beacon]]

    /// The place of the last.
    var last: Int { models.count - 1 - deviations.count }

    /// The place of an edition in the order, or of the one that it stands for.
    func base(of edition: Int) -> Int { deviations[edition]?.base ?? edition }

    /// The editions that a store of one may have had before it.
    func former(of edition: Int) -> Range<Int> {
        guard let deviation = deviations[edition] else { return 0..<edition }
        return 0..<(deviation.isNew ? 0 : deviation.base)
    }

    /// Whether nodes of one edition take what is written by a model.
    func takes(_ hash: [UInt8], at edition: Int) -> Bool {
        models[edition].modelHash == hash
            || former(of: edition).contains { models[$0].modelHash == hash }
    }
}
