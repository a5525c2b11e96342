import Coordinator
import Merge

extension TestStore {
    /// The version of a row in the store; nil where it is gone.
    func version(of id: ManagedObjectID) throws -> RowVersion? {
        guard let entity = coordinator.model.entity(named: id.entityName) else { return nil }
        return try coordinator.read { try $0.row(entity, id.row)?.version }
    }

    /// Applies what another node has saved and this one lacks, as replication would.
    func take(from other: TestStore) throws {
        let have = try coordinator.read { try $0.token.versionVector }
        let missing = try other.coordinator.read {
            try $0.transactions(notCoveredBy: have, byteLimit: 1 << 20).transactions
        }
        _ = try coordinator.apply(missing.map { try EncodedTransaction(decoding: $0) })
    }
}
