import Merge

/// Writes the parts of a fetch's SQL: joins, values at paths, conditions.
///
/// Invariant: ``bindings`` are in the order in which their `?` occur in the finished statement.
struct SQLBuilder {
    /// How many to-ones a fetch may join: SQLite joins at most 64 tables.
    static let maximumJoins = 60
    /// How many parts are joined side by side: SQLite bounds the depth of expressions.
    private static let maximumWidth = 100

    let model: ManagedObjectModel
    let codes: EntityCodes
    var bindings: [PropertyValue] = []
    /// Of a grouped fetch, what names in having and order stand for.
    var columnExpressions: [String] = []

    /// To-ones joined to one base, each path once.
    private struct Scope {
        let base: String
        var aliases: [String: String] = [:]
        var text = ""
        var count = 0
    }

    private var outer = Scope(base: "t0")
    private var aliasCount = 0

    init(model: ManagedObjectModel, codes: EntityCodes) {
        self.model = model
        self.codes = codes
    }

    private static func column(_ name: String, of alias: String) -> String {
        "\(alias).\(quote(name))"
    }

    /// An identifier in quotes. Names of the model are letters, digits and underscores; link
    /// tables have a point.
    static func quote(_ name: String) -> String {
        "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
    }

    /// The joins of the statement's own FROM.
    func joinText() throws(FetchRequestError) -> String {
        guard outer.count <= Self.maximumJoins else {
            throw FetchRequestError(
                "the fetch follows more than \(Self.maximumJoins) relationships")
        }
        return outer.text
    }

    private mutating func alias(_ letter: String) -> String {
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
        bindings.append(.string(Self.list(rows)))
        return "t0._id NOT IN (SELECT value FROM json_each(?))"
    }

    // MARK: Paths

    /// The value at a path without to-manys, joined to the statement's FROM.
    mutating func value(_ path: ResolvedPath) throws(FetchRequestError) -> String {
        var scope = outer
        let result = value(path.terminal, path.steps[...], &scope)
        outer = scope
        return result
    }

    private mutating func value(
        _ terminal: ResolvedPath.Terminal, _ steps: ArraySlice<ManagedObjectModel.Relationship>,
        _ scope: inout Scope
    ) -> String {
        switch terminal {
        case .column(let position, _): return columnExpressions[position]
        case .attribute(let name, _): return Self.column(name, of: join(steps, &scope))
        case .object:
            // The column holds the identity already; the row it leads to need not be read.
            if let last = steps.last, case .column = last.storage {
                return Self.column(last.name, of: join(steps.dropLast(), &scope))
            }
            return "\(join(steps, &scope))._id"
        case .count(let relationship):
            let owner = join(steps, &scope)
            let tables = tables(of: relationship)
            return "(SELECT count(*) FROM \(Self.from(tables, of: owner)))"
        }
    }

    /// Joins to-ones, each path once, and gives the alias of what the last leads to.
    private mutating func join(
        _ steps: ArraySlice<ManagedObjectModel.Relationship>, _ scope: inout Scope
    ) -> String {
        var owner = scope.base
        var key = ""
        for step in steps {
            key += ".\(step.name)"
            if let known = scope.aliases[key] {
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
            scope.text +=
                " LEFT JOIN \(table(step.destination)) AS \(joined)"
                + " ON \(joined)._id = \(condition)"
            scope.count += 1
            scope.aliases[key] = joined
            owner = joined
        }
        return owner
    }

    private struct Table {
        let name: String
        let alias: String
        /// The column with the owner's identity; of the first table of several.
        var near: String?
        /// The further conditions, or the join with the table before.
        let condition: String
    }

    /// The tables that lead from an owner to the objects of a to-many; the last has the objects.
    private mutating func tables(of relationship: ManagedObjectModel.Relationship) -> [Table] {
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

    /// - Parameter owner: the alias of the only owner; nil for all owners.
    private static func from(
        _ tables: [Table], of owner: String? = nil, joins: String = ""
    ) -> String {
        guard let first = tables.first, let near = first.near else { return "" }
        let others = tables.dropFirst().map { " JOIN \($0.name) AS \($0.alias) ON \($0.condition)" }
        let isOwned = owner.map { "\(near) = \($0)._id" } ?? "\(near) IS NOT NULL"
        return "\(first.name) AS \(first.alias)\(others.joined())\(joins)"
            + " WHERE \(isOwned)\(first.condition)"
    }

    // MARK: Conditions

    /// A condition as SQL, in parentheses where it could be misread.
    mutating func condition(_ predicate: ResolvedPredicate) throws -> String {
        switch predicate {
        case .constant(let truth): return truth ? "1" : "0"
        case .not(let part): return "NOT \(try condition(part))"
        case .and(let parts):
            return Self.joined(try parts.map { try condition($0) }, " AND ", none: "1")
        case .or(let parts):
            return Self.joined(try parts.map { try condition($0) }, " OR ", none: "0")
        case .test(let path, let test): return self.test(try value(path), path.type, test)
        case .paths(let left, let comparison, let right, let options):
            let type = left.type
            let first = Self.folded(try value(left), options)
            let second = Self.folded(try value(right), options)
            let compared = comparison.isOrdering ? ordered(first, type) : first
            return "(\(compared) \(comparison.sql) \(second))"
        case .quantified(let quantifier, let path, let test):
            return try quantified(quantifier, path, test)
        }
    }

    private static func joined(_ parts: [String], _ word: String, none: String) -> String {
        if parts.isEmpty { return none }
        var parts = parts
        while parts.count > maximumWidth {
            parts = stride(from: 0, to: parts.count, by: maximumWidth).map {
                let group = parts[$0..<min($0 + maximumWidth, parts.count)]
                return "(\(group.joined(separator: word)))"
            }
        }
        return "(\(parts.joined(separator: word)))"
    }

    private mutating func quantified(
        _ quantifier: PredicateComparison.Quantifier, _ path: ResolvedPath, _ test: ValueTest
    ) throws -> String {
        guard let first = path.firstToMany else { return "0" }
        var scope = outer
        let owner = join(path.steps[..<first], &scope)
        outer = scope
        let tables = tables(of: path.steps[first])
        var inner = Scope(base: tables.last?.alias ?? outer.base)
        let holds = holds(path, from: first + 1, followed: 1, &inner) { value, builder in
            let holds = builder.test(value, path.type, test)
            return quantifier == .all ? "\(holds) IS NOT TRUE" : holds
        }
        let from = Self.from(tables, of: owner, joins: inner.text)
        switch quantifier {
        case .any: return "EXISTS (SELECT 1 FROM \(from) AND \(holds))"
        case .none, .all: return "NOT EXISTS (SELECT 1 FROM \(from) AND \(holds))"
        }
    }

    /// A condition on the end of a path, after the first part of the path was followed.
    ///
    /// The second to-many is looked into for each object of the first, which there are few of where the
    /// fetch is about few. From the third on it is asked whether the object is in the set of those for
    /// which the rest holds, which SQLite makes once: to follow every way there is would take as long as
    /// the numbers of members multiplied.
    private mutating func holds(
        _ path: ResolvedPath, from start: Int, followed: Int, _ scope: inout Scope,
        _ test: (String, inout SQLBuilder) -> String
    ) -> String {
        guard let next = path.steps.indices.first(where: { $0 >= start && path.steps[$0].isToMany })
        else { return test(value(path.terminal, path.steps[start...], &scope), &self) }
        let owner = join(path.steps[start..<next], &scope)
        let tables = tables(of: path.steps[next])
        var inner = Scope(base: tables.last?.alias ?? scope.base)
        let holds = holds(path, from: next + 1, followed: followed + 1, &inner, test)
        if followed == 1 {
            let from = Self.from(tables, of: owner, joins: inner.text)
            return "EXISTS (SELECT 1 FROM \(from) AND \(holds))"
        }
        let near = tables.first?.near ?? "NULL"
        return "\(owner)._id IN (SELECT \(near) FROM "
            + "\(Self.from(tables, joins: inner.text)) AND \(holds))"
    }

    // MARK: Tests

    /// An expression that SQLite is to order: decimals by value, not as text.
    func ordered(_ expression: String, _ type: AttributeType?) -> String {
        type == .decimal ? "\(expression) COLLATE \(FetchCompiler.decimalCollation)" : expression
    }

    private static func folded(_ expression: String, _ options: ComparisonOptions) -> String {
        options.isEmpty
            ? expression
            : "\(FetchCompiler.foldFunction)(CAST(\(expression) AS BLOB), \(options.rawValue))"
    }

    /// Binds a constant's value; folded texts are compared as bytes.
    private mutating func bind(_ value: PropertyValue, _ options: ComparisonOptions) {
        switch value {
        case .string(let text) where !options.isEmpty, .uri(let text) where !options.isEmpty:
            bindings.append(.binary(Array(text.utf8)))
        default: bindings.append(value)
        }
    }

    private mutating func test(
        _ expression: String, _ type: AttributeType?, _ test: ValueTest
    ) -> String {
        switch test {
        case .isNull: return "(\(expression) IS NULL)"
        case .isNotNull: return "(\(expression) IS NOT NULL)"
        case .compare(let comparison, let constant, let options):
            bind(constant, options)
            let folded = Self.folded(expression, options)
            let compared = comparison.isOrdering ? ordered(folded, type) : folded
            return "(\(compared) \(comparison.sql) ?)"
        case .between(let low, let high, let options):
            bind(low, options)
            bind(high, options)
            return "(\(ordered(Self.folded(expression, options), type)) BETWEEN ? AND ?)"
        case .isIn(let values, let options):
            return isIn(Self.folded(expression, options), values, options)
        case .text(let kind, let needle, let options):
            return text(expression, kind, needle, options)
        }
    }

    private mutating func isIn(
        _ expression: String, _ values: [PropertyValue], _ options: ComparisonOptions
    ) -> String {
        if values.isEmpty { return "0" }
        if values.count > Self.maximumWidth, let list = Self.integerList(values) {
            bindings.append(.string(list))
            return "(\(expression) IN (SELECT value FROM json_each(?)))"
        }
        for value in values { bind(value, options) }
        let marks = repeatElement("?", count: values.count).joined(separator: ", ")
        return "(\(expression) IN (\(marks)))"
    }

    /// Rows as a JSON list.
    static func list(_ rows: [RowID]) -> String {
        "[\(rows.map { String($0.rawValue) }.joined(separator: ","))]"
    }

    /// Whole numbers as a JSON list, so that a long one takes one binding.
    private static func integerList(_ values: [PropertyValue]) -> String? {
        var numbers: [String] = []
        numbers.reserveCapacity(values.count)
        for value in values {
            switch value {
            case .integer(let number), .date(let number): numbers.append(String(number))
            case .reference(let row): numbers.append(String(row.rawValue))
            default: return nil
            }
        }
        return "[\(numbers.joined(separator: ","))]"
    }

    private mutating func text(
        _ expression: String, _ kind: TextComparison, _ needle: String,
        _ options: ComparisonOptions
    ) -> String {
        if kind == .beginsWith, options.isEmpty {
            // A range, so that an index serves it.
            bindings.append(.string(needle))
            guard let end = Self.end(ofPrefix: needle) else { return "(\(expression) >= ?)" }
            bindings.append(.string(end))
            return "(\(expression) >= ? AND \(expression) < ?)"
        }
        if kind == .contains, options.isEmpty {
            bindings.append(.string(needle))
            return "(instr(\(expression), ?) > 0)"
        }
        bindings.append(.binary(Array(needle.utf8)))
        return "\(FetchCompiler.textFunction)(\(kind.rawValue), CAST(\(expression) AS BLOB), ?, "
            + "\(options.rawValue))"
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

extension PredicateComparison.Operator {
    /// The operator in SQL; for equality and order only.
    fileprivate var sql: String { self == .equal ? "=" : rawValue }
}
