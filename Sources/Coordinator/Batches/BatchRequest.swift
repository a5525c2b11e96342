/// A request that changes many objects in the store without making objects of them, as Core Data's batch
/// requests.
///
/// No object is validated but for the types of its values, and no context is told by callbacks or did-save
/// notices; history, commit notices and the change feed have each object, so that contexts can merge it.
/// Others' saves go on between its transactions, of ``BatchOptions/objectsInTransaction`` objects each.
public protocol BatchRequest: Sendable {
    /// The kind of result to give.
    var resultType: BatchRequestResultType { get set }
    /// How it is done.
    var options: BatchOptions { get set }
    /// What it does. The library's requests are the only ones there are.
    var batch: Batch { get }
}

/// The kind of result that a batch request gives.
public enum BatchRequestResultType: String, Hashable, Sendable, CaseIterable {
    /// That it was done.
    case statusOnly = "status"
    /// How many objects it was done with.
    case count
    /// Which objects, in the order in which they were written. They are held in memory.
    case objectIDs = "ids"
}

/// How a batch request is done.
public struct BatchOptions: Hashable, Sendable {
    /// The most objects of one transaction, unless the request is atomic. One with large values ends
    /// sooner, at about 32 MiB of them.
    public static let objectsInTransaction = 10_000

    /// Whether it is one transaction, whatever its size: all or nothing. Others' saves wait while it is
    /// written, and it is held in memory. Default false.
    public var isAtomic: Bool
    /// A name to repeat the request by, of 1 to 180 bytes of UTF-8; nil for none. Repeated under it after
    /// a failure it goes on where it stopped, and after its end does nothing, for as long as history has
    /// it. One with a limit, an offset or a predicate over other objects is refused then instead
    /// (`saveIDReused`), because what is left cannot be told. Its transactions have the names `ID#0`,
    /// `ID#1` and so on, and the last one `ID`.
    public var saveID: String?
    /// Whether it decides over unresolved conflicts between nodes on what it writes. Without, the first
    /// such object ends it (`unresolvedConflict`).
    public var resolvesConflicts: Bool

    /// Describes how a request is done.
    public init(isAtomic: Bool = false, saveID: String? = nil, resolvesConflicts: Bool = false) {
        self.isAtomic = isAtomic
        self.saveID = saveID
        self.resolvesConflicts = resolvesConflicts
    }
}

/// What a batch request has done.
public struct BatchResult: Hashable, Sendable {
    /// What the request asked for.
    public let resultType: BatchRequestResultType
    /// How many objects it was done with: those that it chose, and not those that delete rules took along.
    /// Those that had the values already count too.
    public internal(set) var count = 0
    /// Which objects, where the request asks for them; those that it was done with before it was repeated
    /// are not among them.
    public internal(set) var objectIDs: [ManagedObjectID]?
    /// In how many transactions.
    public internal(set) var transactions = 0
    /// The state of the store that contains it; nil where it has written nothing.
    public internal(set) var token: QueryGenerationToken?

    init(_ resultType: BatchRequestResultType) {
        self.resultType = resultType
        objectIDs = resultType == .objectIDs ? [] : nil
    }
}

/// A batch request that ended before its end, with a part of it done.
public struct BatchError: Error, Sendable, CustomStringConvertible {
    /// What was done, and stays.
    public let done: BatchResult
    /// Why it ended: a ``CoordinatorError``, a `CancellationError`, or what the progress handler or the
    /// rows' handler threw.
    public let reason: any Error

    /// The reason, and how far it came.
    public var description: String {
        "\(reason) \(done.count) objects were done before, in \(done.transactions) transactions."
    }
}
