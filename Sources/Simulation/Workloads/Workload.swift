internal import Coordinator
internal import Merge
internal import Replication

/// The work of a cluster's clients. Knows nothing of faults or checkers: it saves and reads through
/// a session, and takes every refusal as a client would.
protocol Workload {
    /// For trace and plan.
    var name: String { get }
    /// Whether a model has what the workload needs.
    func suits(_ model: ManagedObjectModel) -> Bool
    /// One client's action at one node. All its chance is in `generator`.
    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator)
}

/// One client's session with one live process, for one step.
///
/// Saves and reads are observed. What a client remembers from step to step, such as objects it
/// has fetched and will save against, is in ``memory``: one a node, and it survives the node's
/// crashes, as a client does.
final class WorkloadSession {
    let model: ManagedObjectModel
    let memory: ClientMemory
    private let process: SimulatedProcess

    init(process: SimulatedProcess, memory: ClientMemory) {
        self.process = process
        self.memory = memory
        model = process.coordinator.model
    }

    /// The coordinator, for contexts and for what is read of the journal. To be used inside the
    /// step only.
    var coordinator: PersistentStoreCoordinator { process.coordinator }

    /// Saves; nil where it was refused or its outcome is unknown.
    @discardableResult
    func save(_ request: SaveRequest) -> SaveResult? { process.save([request]).first ?? nil }

    /// Saves several requests as one group commit.
    @discardableResult
    func saveTogether(_ requests: [SaveRequest]) -> [SaveResult?] { process.save(requests) }

    /// Reads as a client does, and notes the answer, so that it is checked; nil if the store cannot
    /// be read.
    func read<Value>(_ body: (StoreReader, inout Reading) throws -> Value) -> Value? {
        process.read(body)
    }

    /// Runs what saves by itself (a context, a resolution) and observes what was committed.
    func perform<Result>(_ body: (PersistentStoreCoordinator) throws -> Result)
        -> Swift.Result<
            Result, any Error
        >
    { process.perform(body) }

    /// Tells the checker of law 10 what a context did.
    func record(_ record: ContextRecord) {
        process.observe { .contextSaved(node: $0, record: record) }
    }

    /// Counts a rare path.
    func met(_ beacon: Beacon) { process.met(beacon) }
}

/// The memory of one node's clients.
final class ClientMemory {
    /// Objects as they were fetched some time ago, to save against; workloads keep it short.
    var fetched: [RowSnapshot] = []
    /// A running number, to make values distinct.
    var counter: Int64 = 0
    /// How many saves were sent, to tell them apart by their authors.
    var saves: UInt64 = 0
    /// Save requests with an ID whose outcome is unknown, to be repeated.
    var unanswered: [SaveRequest] = []
    /// Save requests with an ID and what they were answered with, the last few.
    var answered: [(request: SaveRequest, result: SaveResult)] = []
    /// Conflicts as they were listed some time ago, the last few.
    var conflicts: [Conflict] = []
    /// A context with objects fetched in an earlier step. It lives in the process: the world calls
    /// ``processEnded()`` before it releases a coordinator.
    var kept: KeptContext?
    /// The faults that a client found by itself, such as two answers to one save ID: violations,
    /// which the world takes and reports.
    private(set) var complaints: [String] = []

    /// Notes what is wrong; the first few only, because one fault shows again and again.
    func complain(_ text: String) {
        if complaints.count < 20 { complaints.append(text) }
    }

    /// Gives the complaints away.
    func takeComplaints() -> [String] {
        defer { complaints = [] }
        return complaints
    }

    /// Forgets the places and names of a model that is gone.
    func forgetModel() {
        fetched = []
        unanswered = []
        answered = []
        conflicts = []
    }

    /// Forgets what lived in the process that ends: its contexts.
    func processEnded() { kept = nil }
}
