import GRDB
import Merge

/// A part of what writes a store. All parts share a session; each has the SQL of its own tables.
protocol StorePart {
    var session: StoreSession { get }
}

extension StorePart {
    var database: Database { session.database }
    var model: ManagedObjectModel { session.model }
    var history: ModelHistory { session.history }
    var tables: [String: EntityTable] { session.tables }
    var cluster: String { session.cluster }
    var actor: ActorID { session.actor }
    var environment: StoreSession.Environment { session.environment }
    var groupedRoots: Set<String> { session.groupedRoots }
    var countedLinks: Set<String> { session.countedLinks }

    var state: StoreSession.State {
        _read { yield session.state }
        nonmutating _modify { yield &session.state }
    }

    var group: StoreSession.GroupChanges {
        _read { yield session.group }
        nonmutating _modify { yield &session.group }
    }

    var scratch: ApplyScratch {
        _read { yield session.scratch }
        nonmutating _modify { yield &session.scratch }
    }

    func table(_ entity: String) -> EntityTable { session.table(entity) }
    func coding(_ table: EntityTable) -> RowCoding { session.coding(table) }

    /// Carries statements out that no plan is kept of.
    func execute(sql: String) throws { try database.execute(sql: sql) }

    /// How many rows the last statement has changed.
    var changesCount: Int { database.changesCount }

    // MARK: The other parts

    var view: StoreView { StoreView(session) }
    var rowStore: RowStore { RowStore(session: session) }
    var linkStore: LinkStore { LinkStore(session: session) }
    var claimStore: ClaimStore { ClaimStore(session: session) }
    var groupStore: UniqueGroupStore { UniqueGroupStore(session: session) }
    var transactionLog: TransactionLog { TransactionLog(session: session) }
    var saveAnswers: SaveAnswers { SaveAnswers(session: session) }
    var orphanStore: OrphanStore { OrphanStore(session: session) }
    var consumerStore: ConsumerStore { ConsumerStore(session: session) }
    var membershipStore: MembershipStore { MembershipStore(session: session) }
    var incarnationStore: IncarnationStore { IncarnationStore(session: session) }
    var journal: ConflictJournal { ConflictJournal(session: session) }
    var countTracker: CountTracker { CountTracker(session: session) }
    var derivedAttributes: DerivedAttributeWriter { DerivedAttributeWriter(session: session) }
    var collectionList: CollectionList { CollectionList(session: session) }
    var rowWriter: RowWriter { RowWriter(session: session) }
    var linkWriter: LinkWriter { LinkWriter(session: session) }
    var applier: TransactionApplier { TransactionApplier(session: session) }
}
