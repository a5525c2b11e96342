import Merge

extension VersionVector {
    /// How many transactions of the other this one lacks.
    func lag(behind other: VersionVector) -> UInt64 {
        var sum: UInt64 = 0
        for entry in other.entries {
            let known = self[entry.actor]
            guard entry.sequence > known else { continue }
            let (next, overflow) = sum.addingReportingOverflow(entry.sequence - known)
            sum = overflow ? .max : next
        }
        return sum
    }

    /// The same, with at most so much of one actor.
    func clamped(_ actor: ActorID, to sequence: UInt64) -> VersionVector {
        guard self[actor] > sequence else { return self }
        return VersionVector(
            entries.map { $0.actor == actor ? .init(actor: actor, sequence: sequence) : $0 })
    }
}
