// Models: what the protocol carries of them, and what the store makes of it.

internal import Coordinator
internal import Dispatch
internal import Logging
internal import Merge
internal import Replication

extension PersistentStoreCoordinator {
    /// The models whose transactions can be applied, oldest first, the store's own the last.
    var modelTexts: [ModelText] {
        get throws { (try formerModels + [model]).map { ModelText($0) } }
    }
}

extension ModelText {
    /// A model as the protocol carries it.
    init(_ model: ManagedObjectModel) {
        self.init(
            hash: model.modelHash, text: Array(JSONWriter.text(of: model.jsonValue()).utf8))
    }

    /// How many entities a peer's model may have to be looked at: to resolve more takes seconds.
    private static let mostEntities = 2_000

    /// The model; nil where the text is none, or is that of another hash, or has too many entities.
    var model: ManagedObjectModel? {
        let entities = (try? JSONParser.parse(text))?.object?["entities"]?.array
        guard (entities?.count ?? 0) <= Self.mostEntities else { return nil }
        guard let model = try? ManagedObjectModel(json: text), model.modelHash == hash else {
            return nil
        }
        return model
    }

    /// The beginning of a version hash, for people.
    static func name(_ hash: [UInt8]) -> String {
        hash.prefix(6).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Refusal {
    /// What differs, for people: part by part where that is known.
    var reason: String { difference ?? "here \(ours), there \(theirs)" }
}

extension EffectInterpreter {
    /// Lets the store learn of models that nodes of its own model had before it.
    func learn(_ texts: [ModelText]) {
        let (handover, coordinator, logger) = (handover, coordinator, logger)
        readQueue.async {
            do {
                let known = Set(try coordinator.learn(texts.compactMap(\.model)))
                handover.give(.learnt(texts.filter { known.contains($0.hash) }))
            } catch {
                logger.error(
                    "A former model could not be recorded", metadata: [LogKeys.error: "\(error)"])
                handover.give(.notLearnt(texts))
            }
        }
    }

    /// Finds what a peer's model has otherwise.
    func compare(_ text: ModelText, of node: NodeID) {
        let (handover, coordinator) = (handover, coordinator)
        readQueue.async {
            let difference =
                text.model.map { model in
                    "here / there: "
                        + ModelDifference.summary(
                            ModelDifference.betweenPeers(coordinator.model, model))
                } ?? "the model that it tells of is not that of its hash"
            handover.give(.compared(node, hash: text.hash, difference: difference))
        }
    }
}
