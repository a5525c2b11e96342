internal import Coordinator

/// Watches one law of DESIGN section 14 over one run. One file a law.
///
/// A checker sees every observation in order, reports violations as text that a person can act on,
/// and never changes the run: it takes no chance from the world's generators and no time.
protocol Checker {
    /// The law's number.
    var law: Int { get }
    /// Takes in what happened.
    ///
    /// - Returns: what violates the law, one line each; empty nearly always.
    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String]
}

/// The state that all checkers of a run share.
final class RunContext {
    /// The model of the node that is observed.
    var model: ManagedObjectModel { archive.model }
    /// How many machines there are, numbered from 0; node n's NodeID is n + 1. A copy of a machine
    /// has a number from `machines` on.
    let machines: Int
    /// How many of them were members from the first; the others may join.
    let founders: Int
    /// Everything that was ever committed anywhere.
    let archive: TransactionArchive
    /// Virtual milliseconds since the run began.
    var now: UInt64 = 0

    /// - Parameter editions: the run's models, where nodes come to have another.
    init(
        model: ManagedObjectModel, machines: Int, founders: Int? = nil,
        editions: Editions? = nil
    ) {
        self.machines = machines
        self.founders = founders ?? machines
        archive = TransactionArchive(model: model, editions: editions)
    }
}

/// A violation of a law, as it is reported.
public struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The law's number in DESIGN section 14; 0 for what the simulator itself found.
    public let law: Int
    /// When, in virtual milliseconds since the run began.
    public let milliseconds: UInt64
    /// The violation, in words.
    public let text: String

    /// Law, time and text in one line.
    public var description: String { "law \(law) at \(milliseconds) ms: \(text)" }
}
