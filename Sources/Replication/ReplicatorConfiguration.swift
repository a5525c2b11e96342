package import Merge

extension Replicator {
    /// This node's identity.
    package struct Configuration: Hashable, Sendable {
        /// The cluster's name, at most 255 bytes of UTF-8.
        package var cluster: String
        /// This incarnation of this node.
        package var actor: ActorID
        /// The version hash of the model, 32 bytes.
        package var modelHash: [UInt8]
        /// Whether the store may lack what its node has reported before, as kept in the store.
        package var recovery: Recovery
        /// Whether it is new and one of the cluster's founders, as ``Effect/founder`` told.
        package var isFounder: Bool
        /// In which incarnations it was open before, from the one that made it on, as far as that is
        /// known; for a store that is new.
        package var formerIncarnations: [ActorID]
        /// The cluster's founders, as ``Effect/vouched(founders:)`` last named them.
        package var founders: [ActorID]
        /// The incarnations of other nodes that the store remembers, at most one a node, in any
        /// order: the last that ``Input/remembered(_:isDurable:now:)`` told of.
        package var incarnations: [ActorID]
        /// The models whose transactions the store can apply, oldest first, the last being its
        /// own. Empty means that nothing is held for want of its model.
        package var models: [ModelText]

        /// The incarnation of this node that had the store's lock before, and so has ended; nil where
        /// that is not certain.
        package var predecessor: ActorID?
        /// Whether no save is let through before a member has met this incarnation, or some seconds have
        /// passed: its store is new, or may be a copy beside one that is in use.
        package var hearsFirst: Bool

        /// A copy of a member's store that an earlier run has taken in in part.
        package var transfer: BegunTransfer?
        /// For how long after the start no copy is asked for, in milliseconds: one that was whole
        /// could not take the store's place. At most an hour, because nobody can wait for longer.
        package var transferPauseMilliseconds: UInt64

        /// Where an earlier run has left a transfer.
        package struct BegunTransfer: Hashable, Sendable {
            /// The owner of the copied store.
            package var donor: NodeID
            /// Which.
            package var copy: TransferCopy
            /// How much of it is on disk.
            package var offset: UInt64

            /// Describes a place.
            package init(donor: NodeID, copy: TransferCopy, offset: UInt64) {
                self.donor = donor
                self.copy = copy
                self.offset = offset
            }
        }

        /// Describes a node.
        package init(
            cluster: String, actor: ActorID, modelHash: [UInt8], recovery: Recovery = .none,
            isFounder: Bool = false, formerIncarnations: [ActorID] = [],
            founders: [ActorID] = [], incarnations: [ActorID] = [], models: [ModelText] = [],
            predecessor: ActorID? = nil, hearsFirst: Bool = false,
            transfer: BegunTransfer? = nil, transferPauseMilliseconds: UInt64 = 0
        ) {
            self.predecessor = predecessor
            self.hearsFirst = hearsFirst
            self.transfer = transfer
            self.transferPauseMilliseconds = min(transferPauseMilliseconds, 3_600_000)
            self.models = models
            self.cluster = cluster
            self.actor = actor
            self.modelHash = modelHash
            self.recovery = recovery
            self.isFounder = isFounder
            self.formerIncarnations = formerIncarnations
            self.founders = founders
            self.incarnations = incarnations
        }
    }
}
