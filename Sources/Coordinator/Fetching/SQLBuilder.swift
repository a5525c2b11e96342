import Merge

/// Writes the parts of a fetch's SQL: joins, values at paths, conditions.
///
/// Values stand in the parts as marks, which ``finished(_:)`` makes into `?` and bindings in the
/// order in which they occur: a part may be written before what comes before it.
struct SQLBuilder {
    /// How many to-ones a fetch may join: SQLite joins at most 64 tables.
    static let maximumJoins = 60
    /// How many parts are joined side by side: SQLite bounds the depth of expressions.
    static let maximumWidth = 100

    let model: ManagedObjectModel
    let codes: EntityCodes
    private var values: [PropertyValue] = []
    /// Of a grouped fetch, what names in having and order stand for.
    var columnExpressions: [String] = []
    /// The tests of the fetch's own objects that are written with their constants: see ``PartialIndex``.
    var literalTerms = Set<PartialIndex.Term>()
    /// Whether the fetch is of a few objects that it names, so that to-manys are asked for each.
    var isNarrow = false

    /// What is joined to one base: to-ones, each path once, and tables of aggregates.
    struct Scope {
        let base: String
        var aliases: [String: String] = [:]
        var aggregates: [ResolvedPath: String] = [:]
        var text = ""
        var count = 0
    }

    /// The bases, outermost first: the fetch's table, and those of the subqueries being written.
    var scopes = [Scope(base: "t0")]
    /// The scope of each level that paths begin at.
    var levels = [0]
    private var aliasCount = 0

    init(model: ManagedObjectModel, codes: EntityCodes) {
        self.model = model
        self.codes = codes
    }

    // MARK: Bindings

    private static let mark: UInt8 = 1

    /// A mark for a value, which the statement binds.
    mutating func bind(_ value: PropertyValue) -> String {
        values.append(value)
        return "\u{1}\(values.count - 1)\u{1}"
    }

    /// A statement with `?` for its marks, and their values in order.
    func finished(_ sql: String) -> (sql: String, bindings: [PropertyValue]) {
        var text: [UInt8] = []
        var bindings: [PropertyValue] = []
        // Between every two marks there is the number of a value.
        for (index, part) in sql.utf8.split(separator: Self.mark, omittingEmptySubsequences: false)
            .enumerated()
        {
            if index % 2 == 0 {
                text += part
            } else if let place = Int(String(decoding: part, as: UTF8.self)) {
                text.append(UInt8(ascii: "?"))
                bindings.append(values[place])
            }
        }
        return (String(decoding: text, as: UTF8.self), bindings)
    }

    // MARK: Tables

    static func column(_ name: String, of alias: String) -> String {
        "\(alias).\(quote(name))"
    }

    /// An identifier in quotes. Names of the model are letters, digits and underscores; link
    /// tables have a point.
    static func quote(_ name: String) -> String {
        "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
    }

    /// The joins of the statement's own FROM.
    func joinText() throws(FetchRequestError) -> String {
        try Self.text(of: scopes[0])
    }

    private static func text(of scope: Scope) throws(FetchRequestError) -> String {
        guard scope.count <= maximumJoins else {
            throw FetchRequestError("the fetch follows more than \(maximumJoins) relationships")
        }
        return scope.text
    }

    /// Writes something about the objects of a to-many's last table.
    ///
    /// - Returns: what was written, and the joins it needs.
    mutating func within<Result>(
        _ tables: [Table], isLevel: Bool, _ write: (inout SQLBuilder) throws -> Result
    ) throws -> (result: Result, joins: String) {
        scopes.append(Scope(base: tables.last?.alias ?? "t0"))
        if isLevel { levels.append(scopes.count - 1) }
        let result = try write(&self)
        if isLevel { levels.removeLast() }
        return (result, try Self.text(of: scopes.removeLast()))
    }

    mutating func alias(_ letter: String) -> String {
        aliasCount += 1
        return "\(letter)\(aliasCount)"
    }

    /// The table of an entity's hierarchy, as what FROM names.
    func table(_ entity: String) -> String {
        Self.quote(model.entity(named: entity)?.root ?? entity)
    }

    /// A condition: a row is of the entity or, as wanted, of one that inherits from it; none if the
    /// table holds no others.
    func entityCondition(
        _ entity: ManagedObjectModel.Entity, includesSubentities: Bool, alias: String
    ) -> [String] {
        guard entity.sharesTable, !includesSubentities || entity.name != entity.root else {
            return []
        }
        let names = includesSubentities ? entity.familyNames : [entity.name]
        let numbers = names.map { String(codes.code($0)) }.joined(separator: ", ")
        return ["\(alias)._entity IN (\(numbers))"]
    }

    private func entityCondition(_ name: String, alias: String) -> String {
        guard let entity = model.entity(named: name) else { return "" }
        return entityCondition(entity, includesSubentities: true, alias: alias)
            .map { " AND \($0)" }.joined()
    }

    /// A condition: a row is none of some.
    mutating func isNone(of rows: [RowID]) -> String {
        "t0._id NOT IN (SELECT value FROM json_each(\(bind(.string(Self.list(rows))))))"
    }

    /// Rows as a JSON list.
    static func list(_ rows: [RowID]) -> String {
        "[\(rows.map { String($0.rawValue) }.joined(separator: ","))]"
    }

    // MARK: Paths

    /// The value at a path without to-manys, joined to what it begins at.
    mutating func value(_ path: ResolvedPath) throws -> String {
        let scope = levels[path.base]
        switch path.terminal {
        case .count, .aggregate: return try collected(path, scope)
        default: return try value(path.terminal, path.steps[...], scope)
        }
    }

    mutating func value(
        _ terminal: ResolvedPath.Terminal, _ steps: ArraySlice<ManagedObjectModel.Relationship>,
        _ scope: Int
    ) throws -> String {
        switch terminal {
        case .column(let position, _): return columnExpressions[position]
        case .attribute(let name, _): return Self.column(name, of: join(steps, scope))
        case .object: return identity(steps, scope)
        case .count, .aggregate:
            return try collected(
                ResolvedPath(steps: Array(steps), terminal: terminal), scope)
        case .entityName(let root): return entityName(root, of: join(steps, scope))
        }
    }

    /// The identity of the object that to-ones lead to. A column holds it already; the row it leads
    /// to need not be read.
    mutating func identity(
        _ steps: ArraySlice<ManagedObjectModel.Relationship>, _ scope: Int
    ) -> String {
        if let last = steps.last, case .column = last.storage {
            return Self.column(last.name, of: join(steps.dropLast(), scope))
        }
        return "\(join(steps, scope))._id"
    }

    private func entityName(_ root: String, of alias: String) -> String {
        func literal(_ name: String) -> String { "'\(name.replacing("'", with: "''"))'" }
        guard let entity = model.entity(named: root), entity.sharesTable else {
            return "CASE WHEN \(alias)._id IS NOT NULL THEN \(literal(root)) END"
        }
        let cases = entity.familyNames.map { "WHEN \(codes.code($0)) THEN \(literal($0))" }
        return "CASE \(alias)._entity \(cases.joined(separator: " ")) END"
    }

    /// Joins to-ones, each path once, and gives the alias of what the last leads to.
    private mutating func join(
        _ steps: ArraySlice<ManagedObjectModel.Relationship>, _ scope: Int
    ) -> String {
        var owner = scopes[scope].base
        var key = ""
        for step in steps {
            key += ".\(step.name)"
            if let known = scopes[scope].aliases[key] {
                owner = known
                continue
            }
            let condition: String
            switch step.storage {
            case .inverseColumn(let entity, let property):
                let other = alias("x")
                condition =
                    "(SELECT min(\(other)._id) FROM \(table(entity)) AS \(other) WHERE "
                    + "\(other).\(Self.quote(property)) = \(owner)._id"
                    + "\(entityCondition(entity, alias: other)))"
            case .column, .link: condition = Self.column(step.name, of: owner)
            }
            let joined = alias("j")
            scopes[scope].text +=
                " LEFT JOIN \(table(step.destination)) AS \(joined)"
                + " ON \(joined)._id = \(condition)"
            scopes[scope].count += 1
            scopes[scope].aliases[key] = joined
            owner = joined
        }
        return owner
    }

    struct Table {
        let name: String
        let alias: String
        /// The column with the owner's identity; of the first table of several.
        var near: String?
        /// The further conditions, or the join with the table before.
        let condition: String
    }

    /// The tables that lead from an owner to the objects of a to-many; the last has the objects.
    mutating func tables(of relationship: ManagedObjectModel.Relationship) -> [Table] {
        let members = alias("m")
        switch relationship.storage {
        case .column: return []
        case .inverseColumn(let entity, let property):
            return [
                Table(
                    name: table(entity), alias: members,
                    near: "\(members).\(Self.quote(property))",
                    condition: entityCondition(entity, alias: members))
            ]
        case .link(let name, let isFirst):
            let link = alias("l")
            let (near, far) = isFirst ? ("source", "target") : ("target", "source")
            return [
                Table(
                    name: Self.quote(name), alias: link, near: "\(link).\(near)",
                    condition: " AND \(link)._alive"),
                Table(
                    name: table(relationship.destination), alias: members,
                    condition: "\(members)._id = \(link).\(far)"),
            ]
        }
    }

    /// - Parameter owner: the identity of the only owner; nil for all owners.
    static func from(
        _ tables: [Table], of owner: String? = nil, joins: String = ""
    ) -> String {
        guard let first = tables.first, let near = first.near else { return "" }
        let others = tables.dropFirst().map { " JOIN \($0.name) AS \($0.alias) ON \($0.condition)" }
        let isOwned = owner.map { "\(near) = \($0)" } ?? "\(near) IS NOT NULL"
        return "\(first.name) AS \(first.alias)\(others.joined())\(joins)"
            + " WHERE \(isOwned)\(first.condition)"
    }

    /// The least text after all that begin with a prefix; nil where there is none. UTF-8 sorts
    /// as its scalars do, so the last scalar that has a next one is put up.
    static func end(ofPrefix prefix: String) -> String? {
        var scalars = prefix.unicodeScalars
        while let last = scalars.popLast() {
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            if let scalar = Unicode.Scalar(next) {
                scalars.append(scalar)
                return String(scalars)
            }
        }
        return nil
    }
}
