internal import Coordinator
internal import Merge
internal import Replication

extension Replicator.Configuration {
    /// A store's knowledge of its node, before anything is applied in this run.
    ///
    /// - Throws: `CoordinatorError` where the store cannot be read, or not be written.
    init(of store: NodeStore, transferPauseMilliseconds: UInt64) throws {
        let coordinator = store.coordinator
        guard let actor = coordinator.actor else {
            throw CoordinatorError(.notWritable, "A node needs a store that is open for writing.")
        }
        self.init(
            cluster: coordinator.cluster, actor: actor,
            modelHash: coordinator.model.modelHash,
            recovery: coordinator.recovery.protocolValue,
            isFounder: coordinator.recovery == .founder,
            formerIncarnations: try coordinator.formerIncarnations,
            founders: try coordinator.founders,
            incarnations: try coordinator.rememberedIncarnations,
            models: try coordinator.modelTexts,
            predecessor: coordinator.predecessor,
            hearsFirst: coordinator.mayBeUnknown, transfer: store.begunTransfer,
            transferPauseMilliseconds: transferPauseMilliseconds)
    }
}

extension StoreRecovery {
    /// The same in the protocol's words.
    fileprivate var protocolValue: Recovery {
        switch self {
        case .none: .none
        case .new, .founder: .new
        case .restored: .restored
        }
    }
}
