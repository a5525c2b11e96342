import Coordinator
import Merge

/// The models of the examples.
enum ExampleModel {
    /// Entities `A`, with properties p and m, and `B`, with n: A.r leads to one B, whose `rs` are
    /// the As that lead to it; A.s and B.t are a one-to-one; A.u and B.v are many-to-many.
    ///
    /// - Parameters:
    ///   - policy: of A.
    ///   - target: of B; nil for the same.
    ///   - deleteRule: what deleting a B does to its `rs`.
    ///   - override: of A.m.
    static func pair(
        _ policy: MergePolicy, target: MergePolicy? = nil, deleteRule: DeleteRule = .nullify,
        override: MergePolicy? = nil
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "A", mergePolicy: policy,
                attributes: [
                    AttributeDescription("p", .string),
                    AttributeDescription("m", .string, mergePolicy: override),
                ],
                relationships: [
                    RelationshipDescription("r", to: "B", inverse: "rs"),
                    RelationshipDescription("s", to: "B", inverse: "t"),
                    RelationshipDescription("u", to: "B", inverse: "v", isToMany: true),
                ]),
            EntityDescription(
                "B", mergePolicy: target ?? policy,
                attributes: [AttributeDescription("n", .string)],
                relationships: [
                    RelationshipDescription(
                        "rs", to: "A", inverse: "r", isToMany: true, deleteRule: deleteRule),
                    RelationshipDescription("t", to: "A", inverse: "s"),
                    RelationshipDescription("v", to: "A", inverse: "u", isToMany: true),
                ]),
        ])
    }

    /// Three nodes on one model.
    static func nodes(
        _ model: ManagedObjectModel
    ) throws -> (x: ScriptedNode, y: ScriptedNode, z: ScriptedNode) {
        (
            try ScriptedNode(model, node: 1), try ScriptedNode(model, node: 2),
            try ScriptedNode(model, node: 3)
        )
    }
}
