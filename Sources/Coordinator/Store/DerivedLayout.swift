import GRDB
import Merge

/// The columns of derived attributes in a store's tables. Like indexes they come and go with the model's
/// descriptions, without a migration: no row's registers have them.
enum DerivedLayout {
    /// The roots of the entities that have any.
    static func roots(of model: ManagedObjectModel) -> Set<String> {
        Set(model.entities.filter { !$0.derivedAttributes.isEmpty }.map(\.root))
    }

    /// The roots of the entities that have others in one model than in another.
    static func rootsUnlike(
        _ old: ManagedObjectModel, _ new: ManagedObjectModel
    ) -> Set<String> {
        Set(
            new.entities.filter { entity in
                old.entity(named: entity.name)?.derivedAttributes != entity.derivedAttributes
            }.map(\.root))
    }

    /// Takes all of some tables away, with the indexes over them.
    static func drop(
        of model: ManagedObjectModel, roots: Set<String>, in database: Database
    ) throws {
        for (root, attributes) in attributes(of: model, roots) {
            let names = Set(attributes.map(\.name))
            for entity in model.entities where entity.root == root {
                for index in entity.indexes
                where !names.isDisjoint(
                    with: index.elements.map(\.property))
                {
                    let name = EntityTable.quote("\(entity.name).\(index.name)")
                    try database.execute(sql: "DROP INDEX IF EXISTS \(name)")
                }
            }
            let kept = try columns(of: root, in: database)
            for attribute in attributes where kept.contains(attribute.name) {
                try database.execute(
                    sql: "ALTER TABLE \(EntityTable.quote(root)) "
                        + "DROP COLUMN \(EntityTable.quote(attribute.name))")
            }
        }
    }

    /// Adds those of some tables that are there and lack them. They are yet to be computed.
    static func add(
        of model: ManagedObjectModel, roots: Set<String>, in database: Database
    ) throws {
        for (root, attributes) in attributes(of: model, roots) {
            let family = model.entity(named: root)?.familyNames ?? []
            let types = StoreLayout.columns(of: family.compactMap(model.entity(named:)))
            let kept = try columns(of: root, in: database)
            if kept.isEmpty { continue }
            for attribute in attributes where !kept.contains(attribute.name) {
                let type = types.first { $0.name == attribute.name }?.type ?? ""
                try database.execute(
                    sql: "ALTER TABLE \(EntityTable.quote(root)) "
                        + "ADD COLUMN \(EntityTable.quote(attribute.name)) \(type)"
                        + DerivedColumns.declaration(attribute))
            }
        }
    }

    private static func attributes(
        of model: ManagedObjectModel, _ roots: Set<String>
    ) -> [(root: String, attributes: [ManagedObjectModel.DerivedAttribute])] {
        roots.sorted().map { root in
            var seen = Set<String>()
            let all = model.entities.filter { $0.root == root }.flatMap(\.derivedAttributes)
            return (root, all.filter { seen.insert($0.name).inserted })
        }
    }

    private static func columns(of table: String, in database: Database) throws -> Set<String> {
        Set(
            try String.fetchAll(
                database, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table]))
    }
}
