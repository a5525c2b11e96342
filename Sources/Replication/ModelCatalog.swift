import Merge

/// The models whose transactions the store can apply, and how those of peers compare.
///
/// Two nodes agree where one's model is in the other's list (DESIGN section 8).
struct ModelCatalog: Sendable {
    /// How a peer's model stands to ours.
    enum Standing: Hashable, Sendable {
        /// It is ours, or we know it.
        case known
        /// Its list has ours.
        case knowsOurs
        /// Neither knows the other's.
        case foreign
        /// We do not know it, and its list has not come.
        case unlisted
    }

    /// The version hash of our model.
    let own: [UInt8]
    /// Oldest first, the last being our own; empty means that nothing is held for want of its model.
    private(set) var models: [ModelText]
    /// Models that the shell was asked to learn of in this run, and did or could not ever.
    private var considered: [[UInt8]] = []

    init(_ configuration: Replicator.Configuration) {
        own = configuration.modelHash
        models = configuration.models
    }

    /// The version hashes of the models.
    var hashes: Set<[UInt8]> { Set(models.map(\.hash)) }

    /// Whether transactions by that model can be applied.
    func isKnown(_ hash: [UInt8]) -> Bool {
        hash == own || models.contains { $0.hash == hash }
    }

    /// How a peer's model stands to ours.
    ///
    /// - Parameter list: the hashes that the peer told of, its own the last.
    func standing(of hash: [UInt8], list: [[UInt8]]) -> Standing {
        if isKnown(hash) { return .known }
        guard list.last == hash else { return .unlisted }
        return list.contains(own) ? .knowsOurs : .foreign
    }

    /// Our list, with as many texts as fit into a frame; the newest are sent first, and those before
    /// it as far as they all are no more than ``Limits/modelListBytes``.
    ///
    /// Not as a page has: where pages are small, no text would ever be sent, and a store made with
    /// the newest model would wait for ever for those before it.
    func list(isAnswer: Bool, limits: Limits) -> ModelList {
        let last = models.suffix(ModelList.countLimit)
        // The envelope has the cluster's name, and each model its hash.
        var left = limits.frameBytes - 512 - 64 * last.count
        let others = limits.modelListBytes - 512 - 64 * last.count
        let listed = last.reversed().enumerated().map { place, model in
            left -= model.text.count
            let isTold = left >= 0
            if place == 0 { left = min(left, others - model.text.count) }
            return isTold ? model : ModelText(hash: model.hash, text: [])
        }
        return ModelList(isAnswer: isAnswer, models: listed.reversed())
    }

    /// The models of a peer's list that the store may learn of, given once in a run.
    ///
    /// Only the list of a peer of the same model tells which came before that. Of a later model's list
    /// nothing is learnt, though ours be in it: one that its store has itself learnt of may stand
    /// before ours and have come after it. Taken for a former one it would be what was taken away,
    /// and keep this store from every model that has it.
    mutating func news(in list: ModelList) -> [ModelText] {
        guard list.models.last?.hash == own else { return [] }
        let news = list.models.dropLast().filter {
            !isKnown($0.hash) && !$0.text.isEmpty && !considered.contains($0.hash)
        }
        guard considered.count + news.count <= ModelList.countLimit else { return [] }
        considered += news.map(\.hash)
        return news
    }

    /// Lets models be learnt again of the next list.
    mutating func reconsider(_ models: [ModelText]) {
        considered.removeAll { hash in models.contains { $0.hash == hash } }
    }

    /// Takes up models whose transactions can be applied from now on, as older than our own.
    ///
    /// - Returns: whether one is new.
    mutating func takeUp(_ models: [ModelText]) -> Bool {
        let news = models.filter { !isKnown($0.hash) }
        self.models.insert(contentsOf: news, at: max(0, self.models.count - 1))
        return !news.isEmpty
    }
}
