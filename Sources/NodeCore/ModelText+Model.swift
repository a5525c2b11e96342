internal import Coordinator
internal import Merge
internal import Replication

extension PersistentStoreCoordinator {
    /// The models of transactions that can be applied, oldest first. The store's own is the last.
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

    /// The merge policy that is missing to make a model of the text; nil if something else is, or nothing.
    var unregisteredPolicy: String? {
        do {
            _ = try ManagedObjectModel(json: text)
            return nil
        } catch { return error.unregisteredPolicy }
    }
}
