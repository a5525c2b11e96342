import Merge
import Synchronization

/// The models that a store has had or has learnt of, and by which of them each actor wrote.
///
/// An incarnation of a node writes by one model, so an actor names a model as well as each of its
/// transactions does, and a dot in a register tells by which model it was written long after the
/// log has forgotten the transaction.
///
/// Thread-safe. Readers of an older generation may look into a newer history: it only ever grows,
/// and what it says of an actor never changes. So it keeps what was noted for a group of saves that
/// was given up. A writer that notes something writes it into the file whether it is new here or
/// not.
final class ModelHistory: Sendable {
    /// A model that is not the store's own.
    struct Known: Sendable {
        let model: ManagedObjectModel
        let mapping: ModelMapping
    }

    private struct State {
        var known: [[UInt8]: Known] = [:]
        var models: [ActorID: [UInt8]] = [:]
    }

    private let state = Mutex(State())
    private let hasOthers = Atomic<Bool>(false)

    /// Whether there was never another model: then nobody needs to ask.
    var isPlain: Bool { !hasOthers.load(ordering: .acquiring) }

    /// The mapping of a model; nil of one that is not known, and of the store's own.
    func mapping(_ hash: [UInt8]) -> ModelMapping? {
        isPlain ? nil : state.withLock { $0.known[hash]?.mapping }
    }

    /// The mapping of the model by which an actor writes; nil for the store's own.
    func mapping(of actor: ActorID) -> ModelMapping? {
        guard !isPlain else { return nil }
        return state.withLock { state in
            state.models[actor].flatMap { state.known[$0]?.mapping }
        }
    }

    /// By which model an actor writes; nil for the store's own.
    func hash(of actor: ActorID) -> [UInt8]? {
        isPlain ? nil : state.withLock { $0.models[actor] }
    }

    /// The models, in no order, without the store's own.
    var models: [ManagedObjectModel] { state.withLock { $0.known.values.map(\.model) } }

    func add(_ hash: [UInt8], _ known: Known) {
        state.withLock { $0.known[hash] = known }
        hasOthers.store(true, ordering: .releasing)
    }

    /// Notes by which model an actor writes.
    func note(_ actor: ActorID, _ hash: [UInt8]) {
        state.withLock { state in
            if state.models[actor] == nil { state.models[actor] = hash }
        }
    }
}

extension EntityTable {
    /// The values that rows inserted by an actor show for properties that its model lacks, by
    /// position.
    func absent(of actor: ActorID) -> [Int: PropertyValue] {
        history.mapping(of: actor)?.byTarget[entity.name]?.absent ?? [:]
    }

    /// The policies by which a row's registers are settled: of each the one that the model of its
    /// newest sibling's writer has (DESIGN 5.1), so that a migration changes no outcome which has
    /// collapsed elsewhere.
    func policies(for state: RowState) -> EntityPolicies {
        let own = entity.policies
        if history.isPlain || !state.hasSiblings { return own }
        func written(_ dot: Dot?) -> EntityPolicies {
            guard let dot, let mapping = history.mapping(of: dot.actor) else { return own }
            return mapping.byTarget[entity.name]?.policies ?? own
        }
        let existence = written(state.existence.siblings.last?.dot).entity
        if own.isRowGrained { return EntityPolicies(entity: existence, properties: own.properties) }
        let properties = state.properties.enumerated().map { position, register in
            register.siblings.count < 2
                ? own.properties[position]
                : written(register.siblings.last?.dot).properties[position]
        }
        return EntityPolicies(entity: existence, properties: properties)
    }

}

extension ModelHistory {
    /// A link's description with the policy that settles a register of it.
    func settling(
        _ link: ManagedObjectModel.Link, _ register: Register<Bool>
    ) -> ManagedObjectModel.Link {
        guard !isPlain, register.siblings.count > 1, let last = register.siblings.last,
            let policy = mapping(of: last.dot.actor)?.linkPolicies[link.name]
        else { return link }
        return ManagedObjectModel.Link(
            name: link.name, source: link.source, target: link.target, policy: policy)
    }
}
