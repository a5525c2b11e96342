/// The condition of an operation: the store's object must match it at the moment of the save, or
/// the whole save is refused.
package struct SaveCondition: Hashable, Sendable {
    /// The condition as it was written.
    package let predicate: Predicate
    let evaluator: PredicateEvaluator

    /// Compiles a condition, so that the writer does not.
    ///
    /// - Parameters:
    ///   - predicate: the condition.
    ///   - entity: the entity that the operation names.
    ///   - cluster: the cluster that object URIs must have; nil for any.
    /// - Throws: ``PredicateError`` where names or types do not fit the model.
    package init(
        _ predicate: Predicate, entity: ManagedObjectModel.Entity, model: ManagedObjectModel,
        cluster: String? = nil
    ) throws(PredicateError) {
        self.predicate = predicate
        evaluator = try PredicateEvaluator(
            predicate, entity: entity, model: model, cluster: cluster)
    }

    /// The condition for a message: of a long one the beginning.
    var text: String {
        let text = predicate.description
        return text.count <= 200 ? text : "\(text.prefix(200))..."
    }
}
