import Merge

/// Nodes' incarnations and the store's own recovery, as the store keeps them.
struct IncarnationStore: StorePart {
    let session: StoreSession

    /// Remembers the newest incarnation of another node that was met.
    func remember(_ actor: ActorID) throws {
        let statement = try database.prepared(
            "INSERT OR REPLACE INTO _incarnation (node, incarnation) VALUES (?1, ?2)")
        statement.bind(1, Int64(actor.node.rawValue))
        statement.bind(2, Int64(bitPattern: actor.incarnation))
        try statement.run()
        group.wroteApart = true
    }

    /// Records whether somebody must vouch for the store, and who founded the cluster with it.
    func record(_ record: RecoveryRecord) throws {
        if state.recovery == record.recovery { return }
        let statement = try database.prepared("UPDATE _state SET recovery = ?1 WHERE id = 1")
        statement.bind(1, record.recovery.rawValue)
        try statement.run()
        try database.prepared("DELETE FROM _founder").run()
        let founder = try database.prepared(
            "INSERT INTO _founder (node, incarnation) VALUES (?1, ?2)")
        for actor in record.founders {
            founder.bind(1, Int64(actor.node.rawValue))
            founder.bind(2, Int64(bitPattern: actor.incarnation))
            try founder.run()
        }
        state.recovery = record.recovery
        group.wroteApart = true
    }
}
