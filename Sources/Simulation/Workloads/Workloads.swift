internal import Coordinator

/// All workloads there are.
enum Workloads {
    /// Those that suit a model, always in the same order.
    static func all(for model: ManagedObjectModel) -> [any Workload] {
        let known: [any Workload] = [
            PropertyEdits(), Ring(), Links(), DeleteAgainstUpdate(), Counter(), OneToOneClaims(),
            Hierarchy(), GroupCommits(), Contexts(), Resolving(), Repeating(), Large(), Generic(),
        ]
        return known.filter { $0.suits(model) }
    }
}
