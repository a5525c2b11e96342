import GRDB

@testable import Coordinator

extension Decoder {
    /// A model in JSON. One that is accepted must print itself, and a store must be made of it.
    static let model = Decoder(
        name: "model", maximumLength: 4096,
        seeds: { _ in
            [
                SampleModel.text.split(separator: "\n").joined(), "{\"entities\":[]}",
                """
                {"entities":[{"name":"A","attributes":[{"name":"b","type":"integer16","default":3,
                "optional":false,"validation":{"min":1,"max":9},"renamingIdentifier":"c",
                "hashModifier":"1","userInfo":{"k":"v"}}]}]}
                """,
                """
                {"entities":[{"name":"A","abstract":true},{"name":"B","parent":"A","attributes":
                [{"name":"x","type":"string","validation":{"pattern":"[a-z]{2,}","max":5}}],
                "indexes":[{"name":"i","elements":["x"]}],"uniquenessConstraints":[["x"]]},
                {"name":"C","parent":"B","attributes":[{"name":"y","type":"double","default":"NaN"}]}]}
                """,
                """
                {"entities":[{"name":"A","relationships":[{"name":"b","destination":"B","inverse":"a",
                "toMany":true,"minCount":1,"maxCount":3,"deleteRule":"deny","optional":false}]},
                {"name":"B","relationships":[{"name":"a","destination":"A","inverse":"b",
                "mergePolicy":"rollback"}]}]}
                """,
                """
                {"entities":[{"name":"A","relationships":[{"name":"r","destination":"A"},
                {"name":"s","destination":"A","inverse":"s","toMany":true}]}]}
                """,
                """
                {"entities":[{"name":"A","attributes":[{"name":"a","type":"boolean"},
                {"name":"b","type":"date","default":"2026-01-31T12:00:00Z"},{"name":"c",
                "type":"decimal","default":"1.50"},{"name":"d","type":"uuid"},{"name":"e",
                "type":"binary","default":"YQ=="},{"name":"f","type":"uri"},{"name":"g",
                "type":"float"},{"name":"h","type":"integer32","transient":true}]}]}
                """,
            ].map { Array($0.utf8) }
        },
        run: { bytes in
            guard
                let model = attempt(
                    throwing: ModelError.self, { try ManagedObjectModel(json: bytes) })
            else { return }
            let written = JSONWriter.bytes(of: model.jsonValue())
            let read = attempt(
                throwing: ModelError.self, { try ManagedObjectModel(json: written) })
            demand(read == model, "a model that is printed reads otherwise")
            demand(
                read.map { JSONWriter.bytes(of: $0.jsonValue()) } == written,
                "a model prints itself in two ways")
            must {
                try DatabaseQueue().writeWithoutTransaction { database in
                    PredicateFunctions.register(on: database)
                    let engine = try StoreEngine.openInMemory(database, model)
                    insertOne(of: model, engine)
                }
            }
        })

    /// Inserts an object of every entity, which may be refused but must not fail otherwise.
    private static func insertOne(of model: ManagedObjectModel, _ engine: StoreEngine) {
        must { try engine.begin(isDurable: false) }
        engine.group(isLocal: true) {
            for entity in model.entities.prefix(8) {
                _ = attempt(throwing: CoordinatorError.self) {
                    try engine.save(
                        SaveRequest(operations: [
                            SaveOperation(kind: .insert, entity: entity, row: RowIDs.new)
                        ]))
                }
            }
        }
        must { _ = try engine.commit() }
    }
}
