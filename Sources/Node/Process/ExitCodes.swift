// How the program ends, by what went wrong: the exit codes of the client interface's contract.
//
// Values only; may be used from any thread.

package import Coordinator

/// An error that knows with which code the program ends.
package protocol ExitCodeProviding: Error {
    /// The exit code of `tributary`, 1...13.
    var exitCode: Int32 { get }
}

extension NodeError: ExitCodeProviding {
    /// The exit code of `tributary` for this error.
    package var exitCode: Int32 {
        switch code {
        case .configurationInvalid, .secretUnreadable, .notSecured: 2
        case .tooFewNodes: 3
        case .outcomeUnknown: 4
        case .diskFull: 9
        case .nodeIDInUse: 12
        case .acknowledgementTimeout: 13
        default: (cause as? any ExitCodeProviding)?.exitCode ?? 1
        }
    }
}

extension CoordinatorError: ExitCodeProviding {
    /// The exit code of `tributary` for this error.
    package var exitCode: Int32 {
        switch code {
        case .malformed, .invalidPredicate, .storeOwner: 2
        case .mergeConflict, .conditionFailed, .constraintConflict, .unresolvedConflict,
            .deleteDenied,
            .validationFailed, .sidesChanged, .sideAmbiguous, .saveIDReused, .alreadyResolved,
            .fileExists, .memberDeparted,
            .memberUnknown, .memberConnected:
            3
        case .outcomeUnknown: 4
        case .storeDamaged, .storeIncomplete: 5
        case .storeInUse: 6
        case .modelMismatch, .mappingNotInferable, .constraintMigration, .storeLayout: 8
        case .diskFull: 9
        case .queryGenerationExpired, .historyTokenExpired: 10
        case .acknowledgementTimeout: 13
        default: 1
        }
    }
}

extension ModelError: ExitCodeProviding {
    /// A model that cannot be read is a wrong configuration.
    package var exitCode: Int32 { 2 }
}

extension NodeError.Code {
    /// Another live process uses this node's number.
    package static let nodeIDInUse = Self("nodeIDInUse")
    /// The cluster knows a later incarnation of this node than the one that runs; the context's
    /// `incarnation` names it. The store must be opened again, with a later one still.
    package static let incarnationOutdated = Self("incarnationOutdated")
    /// A whole and sound copy of a member's store lies beside this one, whose log or the members'
    /// logs do not reach: close the store, let
    /// ``TransferInstaller/install(at:model:cluster:node:options:)`` make one of
    /// the two, and start the node again.
    package static let transferReady = Self("transferReady")
    /// Saved here, but not yet on enough other nodes; the context says who is missing.
    package static let acknowledgementTimeout = Self("acknowledgementTimeout")
    /// More nodes are to acknowledge than there are.
    package static let tooFewNodes = Self("tooFewNodes")
    /// Whether something was done is not known.
    package static let outcomeUnknown = Self("outcomeUnknown")
    /// The node is stopping or was stopped.
    package static let stopped = Self("stopped")
    /// A part of the node has failed for good; the cause says why.
    package static let failed = Self("failed")
}
