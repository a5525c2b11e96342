/// The checkers of all laws of DESIGN section 14.
enum Checkers {
    /// New checkers for one run. The first keeps the archive of transactions that the others ask,
    /// so the order matters.
    static func all() -> [any Checker] {
        [
            DotChecker(), ConvergenceChecker(), AcknowledgementChecker(), OracleChecker(),
            CarriedValueChecker(), GroupSaveChecker(), CausalityChecker(), PinChecker(),
            ReferenceChecker(), ResurrectionChecker(), StabilityChecker(), BoundsChecker(),
            ContextPolicyChecker(), ConflictChecker(), UnresolvedSaveChecker(),
        ]
    }
}
