import Merge

/// The hash of one link.
enum LinkDigest {
    /// The hash of a link that is there; nil of one that is not.
    ///
    /// - Parameter hasLivingEnds: whether both its ends are alive, because only then is it shown,
    ///   and a conflict over it open.
    static func hash(
        _ link: ManagedObjectModel.Link, _ source: RowID, _ target: RowID,
        _ register: Register<Bool>, hasLivingEnds: Bool
    ) -> (UInt64, UInt64)? {
        guard LinkCoding.isAlive(register, policy: link.policy),
            let visible = LinkCoding.visible(register, policy: link.policy)
        else { return nil }
        let names = DigestNames(entity: link.name, properties: [])
        var hasher = RowHasher(entity: names.entity, row: source, insertion: visible.dot)
        hasher.combine(property: names.entity, value: .reference(target), dot: visible.dot)
        if hasLivingEnds, register.isInConflict, link.policy.leavesUnresolved {
            hasher.combine(unresolved: names.entity, dots: register.siblings.map(\.dot))
        }
        return hasher.finalize()
    }
}
