import ArgumentParser
import Console
import Coordinator
import Merge

/// `tributary model`.
struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model",
        abstract: "Check a model's file, or print the model of a node or store.")

    @Argument(help: "A model as JSON; without it the node's or the store's.", completion: .file())
    var file: String?

    @OptionGroup var source: SourceOptions

    func run() async throws {
        guard let file else {
            let interface = try source.open()
            let answer = try await interface.get("/v1/model")
            let model = try ManagedObjectModel(json: answer.json)
            try interface.show(answer, asJSON: source.json) { _, terminal in
                Self.lines(model, terminal)
            }
            return await interface.close()
        }
        let bytes = try ByteSource.whole(file, maximumBytes: 16 << 20)
        let model: ManagedObjectModel
        do {
            model = try ManagedObjectModel(json: bytes)
            try model.checkLocales()
        } catch { throw CommandFailure.usage("\(file) is no model: \(error).") }
        if source.json {
            try Terminal.print(bytes: JSONWriter.bytes(of: model.jsonValue()))
        } else {
            for line in Self.lines(model, .output) { try Terminal.print(line) }
        }
    }

    private static func lines(_ model: ManagedObjectModel, _ terminal: Terminal) -> [String] {
        var table = Table(["ENTITY", "PROPERTY", "TYPE", "OPTIONAL", "POLICY"])
        for entity in model.entities {
            for attribute in entity.attributes {
                let position = entity.position(of: attribute.name)
                let policy = position.map { entity.policies.properties[$0].rawValue } ?? ""
                table.add([
                    Table.Cell(entity.name, .cyan), Table.Cell(attribute.name),
                    Table.Cell(
                        attribute.type.rawValue
                            + (attribute.derivation.map { " = \($0.expression)" } ?? "")),
                    Table.Cell(attribute.isOptional ? "yes" : "no"), Table.Cell(policy),
                ])
            }
            for relationship in entity.relationships {
                let kind = relationship.isToMany ? "to many " : "to "
                table.add([
                    Table.Cell(entity.name, .cyan), Table.Cell(relationship.name),
                    Table.Cell(kind + relationship.destination),
                    Table.Cell(relationship.description.isOptional ? "yes" : "no"),
                    Table.Cell(entity.policies.entity.rawValue),
                ])
            }
        }
        return table.lines(terminal) + [
            "", "version hash \(model.versionHashText)", "model hash   \(model.modelHashText)",
        ]
    }
}
