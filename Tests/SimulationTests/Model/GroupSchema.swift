import Coordinator
import Merge

extension ExampleModel {
    /// Entities with uniqueness constraints: `A` with keys k, and m with n together, and values p
    /// and q; its heir `C` with a key c besides; `B` with a key b. A.r leads to one B, A.s and B.t
    /// are a one-to-one, A.u and B.v many-to-many, A.over leads to another A. B.only leads to one C, B.e and
    /// C.f are a one-to-one, B.w and C.z many-to-many: an A that has one key with a C is none.
    ///
    /// - Parameters:
    ///   - policy: of A and C.
    ///   - target: of B; nil for the same.
    ///   - override: of A.q.
    static func unique(
        _ policy: MergePolicy, target: MergePolicy? = nil, override: MergePolicy? = nil
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "A", mergePolicy: policy,
                attributes: [
                    AttributeDescription("k", .string), AttributeDescription("m", .integer64),
                    AttributeDescription("n", .double), AttributeDescription("p", .string),
                    AttributeDescription("q", .integer64, defaultValue: 7, mergePolicy: override),
                ],
                relationships: [
                    RelationshipDescription("r", to: "B", inverse: "rs"),
                    RelationshipDescription("s", to: "B", inverse: "t"),
                    RelationshipDescription("u", to: "B", inverse: "v", isToMany: true),
                    RelationshipDescription("over", to: "A", inverse: "under"),
                    RelationshipDescription("under", to: "A", inverse: "over", isToMany: true),
                ], uniquenessConstraints: [["k"], ["m", "n"]]),
            EntityDescription(
                "B", mergePolicy: target ?? policy,
                attributes: [
                    AttributeDescription("b", .string), AttributeDescription("x", .string),
                ],
                relationships: [
                    RelationshipDescription("rs", to: "A", inverse: "r", isToMany: true),
                    RelationshipDescription("t", to: "A", inverse: "s"),
                    RelationshipDescription("v", to: "A", inverse: "u", isToMany: true),
                    RelationshipDescription("only", to: "C", inverse: "onlys"),
                    RelationshipDescription("e", to: "C", inverse: "f"),
                    RelationshipDescription("w", to: "C", inverse: "z", isToMany: true),
                ], uniquenessConstraints: [["b"]]),
            EntityDescription(
                "C", parent: "A",
                attributes: [
                    AttributeDescription("c", .string), AttributeDescription("d", .string),
                ],
                relationships: [
                    RelationshipDescription("onlys", to: "B", inverse: "only", isToMany: true),
                    RelationshipDescription("f", to: "B", inverse: "e"),
                    RelationshipDescription("z", to: "B", inverse: "w", isToMany: true),
                ], uniquenessConstraints: [["c"]]),
        ])
    }
}
