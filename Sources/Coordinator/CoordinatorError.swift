/// A failure in a coordinator, for callers to act on.
///
/// Codes can grow, so switch over them with a default. ``Code/number`` is Core Data's error
/// number where it has one.
public struct CoordinatorError: Error, Sendable, CustomStringConvertible {
    /// A kind of error. A code exists only where some caller may act on it.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The code's name, as in the HTTP interface.
        public let rawValue: String
        /// Makes a code of a name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A row has moved on since it was fetched (NSManagedObjectMergeError).
        public static let mergeConflict = Code(rawValue: "mergeConflict")
        /// The condition of an operation does not hold of its object; ``CoordinatorError/conflicts`` has
        /// the object as the store has it.
        public static let conditionFailed = Code(rawValue: "conditionFailed")
        /// A unique key is taken (NSManagedObjectConstraintMergeError).
        public static let constraintConflict = Code(rawValue: "constraintConflict")
        /// The register has a conflict between nodes that somebody must resolve first.
        public static let unresolvedConflict = Code(rawValue: "unresolvedConflict")
        /// A delete rule refuses (NSValidationRelationshipDeniedDeleteError); whatever else is not valid
        /// is listed with it.
        public static let deleteDenied = Code(rawValue: "deleteDenied")
        /// There is no object of that ID, or not any more
        /// (NSManagedObjectReferentialIntegrityError).
        public static let objectNotFound = Code(rawValue: "objectNotFound")
        /// The request names what the model does not have, or makes no sense.
        public static let malformed = Code(rawValue: "malformed")
        /// Values do not fit the model.
        public static let validationFailed = Code(rawValue: "validationFailed")
        /// A predicate cannot be understood.
        public static let invalidPredicate = Code(rawValue: "invalidPredicate")
        /// A sum is more than its type can hold.
        public static let aggregateOverflow = Code(rawValue: "aggregateOverflow")
        /// The pinned generation was given up.
        public static let queryGenerationExpired = Code(rawValue: "queryGenerationExpired")
        /// The part of the history after a token was purged
        /// (NSPersistentHistoryTokenExpiredError).
        public static let historyTokenExpired = Code(rawValue: "historyTokenExpired")
        /// There is no consumer of history of that name.
        public static let consumerUnknown = Code(rawValue: "consumerUnknown")
        /// No orphan of that name is kept.
        public static let orphanUnknown = Code(rawValue: "orphanUnknown")
        /// A token's vector was not covered in time.
        public static let generationTimeout = Code(rawValue: "generationTimeout")
        /// A read took longer than it was given.
        public static let readTimeout = Code(rawValue: "readTimeout")
        /// Saved here, but not yet at enough other nodes.
        public static let acknowledgementTimeout = Code(rawValue: "acknowledgementTimeout")
        /// The disk is full; nothing was saved and reads go on.
        public static let diskFull = Code(rawValue: "diskFull")
        /// It may have been saved: ask by save ID.
        public static let outcomeUnknown = Code(rawValue: "outcomeUnknown")
        /// Another process has the store.
        public static let storeInUse = Code(rawValue: "storeInUse")
        /// Somebody read the store's file for so long that it could not be replaced; it is as it was.
        public static let storeBusy = Code(rawValue: "storeBusy")
        /// The store is damaged.
        public static let storeDamaged = Code(rawValue: "storeDamaged")
        /// The store's file is not there, but its log is, or the copy of a backup that was to take its place.
        public static let storeIncomplete = Code(rawValue: "storeIncomplete")
        /// The store's files are not where they were opened; they may be put back.
        public static let storeRemoved = Code(rawValue: "storeRemoved")
        /// The file is no store, or of a layout this release does not know.
        public static let storeLayout = Code(rawValue: "storeLayout")
        /// The store belongs to another node or cluster.
        public static let storeOwner = Code(rawValue: "storeOwner")
        /// The store was written with another model.
        public static let modelMismatch = Code(rawValue: "modelMismatch")
        /// The store was written with another model, and no way from that one can be inferred
        /// (NSInferredMappingModelError).
        public static let mappingNotInferable = Code(rawValue: "mappingNotInferable")
        /// Objects have one key that the new model makes unique
        /// (NSMigrationConstraintViolationError).
        public static let constraintMigration = Code(rawValue: "constraintMigration")
        /// The store is open for reading only, or was closed.
        public static let notWritable = Code(rawValue: "notWritable")
        /// The node is not a member of the cluster any more.
        public static let memberDeparted = Code(rawValue: "memberDeparted")
        /// The node is no member of the cluster.
        public static let memberUnknown = Code(rawValue: "memberUnknown")
        /// The node is heard, so nobody may decide for it that it will not return.
        public static let memberConnected = Code(rawValue: "memberConnected")
        /// The file system refused.
        public static let inputOutput = Code(rawValue: "inputOutput")
        /// A file is where one is to be made.
        public static let fileExists = Code(rawValue: "fileExists")
        /// Other operations were saved under the save's ID.
        public static let saveIDReused = Code(rawValue: "saveIDReused")
        /// Somebody has resolved the conflict; ``CoordinatorError/decision`` tells who.
        public static let alreadyResolved = Code(rawValue: "alreadyResolved")
        /// There are other sides by now than the resolution saw.
        public static let sidesChanged = Code(rawValue: "sidesChanged")
        /// Several objects have the side that was named, so the object must be named as well.
        public static let sideAmbiguous = Code(rawValue: "sideAmbiguous")
        /// There is no such conflict, or it cannot be resolved that way.
        public static let conflictNotFound = Code(rawValue: "conflictNotFound")
        /// The conflict is there, but its outcome cannot be undone; see the message.
        public static let cannotBeUndone = Code(rawValue: "cannotBeUndone")
        /// A bound was reached; see the message.
        public static let limitExceeded = Code(rawValue: "limitExceeded")
        /// The store lacks what its node had before; it takes no saves until it has caught up.
        public static let recovering = Code(rawValue: "recovering")
        /// This node's clock is too far off.
        public static let clockDrift = Code(rawValue: "clockDrift")

        /// Core Data's number for it, or 0; see also ``CoordinatorError/number``.
        public var number: Int {
            switch self {
            case .mergeConflict: 133_020
            case .constraintConflict: 133_021
            case .deleteDenied: 1_600
            case .objectNotFound: 133_000
            case .validationFailed: 1_560
            case .modelMismatch: 134_100
            case .constraintMigration: 134_111
            case .mappingNotInferable: 134_190
            case .storeLayout: 134_000
            case .inputOutput: 134_030
            case .historyTokenExpired: 134_301
            default: 0
            }
        }
    }

    /// Which kind.
    public let code: Code
    /// The failure and what can be done about it, for people.
    public let message: String
    /// The objects that moved on, each once (Core Data's conflictList), or do not meet a condition.
    public var conflicts: [MergeConflict]
    /// Everything that is wrong with the values.
    public var failures: [ValidationFailure]
    /// The decision that has resolved the conflict already, of `alreadyResolved`.
    public var decision: ConflictDecision?
    /// The unique keys that several objects would have.
    public var constraintConflicts: [ConstraintConflict] = []

    /// Describes an error.
    public init(
        _ code: Code, _ message: String, conflicts: [MergeConflict] = [],
        failures: [ValidationFailure] = []
    ) {
        self.code = code
        self.message = message
        self.conflicts = conflicts
        self.failures = failures
    }

    /// Core Data's number for it, or 0: of one value that is not valid, or delete that is denied, its
    /// own, of several that of them together (NSValidationMultipleErrorsError).
    public var number: Int {
        guard code == .validationFailed || code == .deleteDenied, let first = failures.first else {
            return code.number
        }
        return failures.count == 1 ? first.code.rawValue : Code.validationFailed.number
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
