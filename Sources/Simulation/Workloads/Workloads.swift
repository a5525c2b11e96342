internal import Coordinator

/// All workloads there are.
enum Workloads {
    /// Those that suit a model, always in the same order; new ones are added at the end, for plans
    /// name them by their places.
    static func all(for model: ManagedObjectModel) -> [any Workload] {
        let later: [any Workload] = [UniqueKeys(), HotRows(), Batches()]
        return general(for: model) + later.filter { $0.suits(model) }
    }

    /// Those that work on any structure, which plans have been drawn from since there are plans.
    static func general(for model: ManagedObjectModel) -> [any Workload] {
        let known: [any Workload] = [
            PropertyEdits(), Ring(), Links(), DeleteAgainstUpdate(), Counter(), OneToOneClaims(),
            Hierarchy(), GroupCommits(), Contexts(), Resolving(), Repeating(), Large(), Generic(),
        ]
        return known.filter { $0.suits(model) }
    }
}
