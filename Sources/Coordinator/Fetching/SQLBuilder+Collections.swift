import Merge

/// How to-manys are asked.
///
/// There are two forms. One looks into the to-many of each object, by an index over its owners:
/// it costs what that object has. The other makes a table of all owners once, and looks each
/// object's owner up in it: it costs a scan of all members.
///
/// The first is right where no two objects look into the same to-many, so in all it reads each
/// member once, and few where an index or a limit leaves few objects. (Over 200,000 members in
/// 100,000 to-manys it takes half as long again as the table for ANY and half as long for a count,
/// and for one object of them microseconds.) Where to-ones lead to the owner, or a second to-many
/// follows, it may read the members of an owner once for each object that leads there: for 100,000
/// objects of one owner 10^10. Then it is the table, unless the fetch names its objects.
extension SQLBuilder {
    // MARK: Quantifiers

    /// A condition on the many values at a path.
    ///
    /// - Parameters:
    ///   - isClosed: whether what is compared with is the same for all objects.
    ///   - test: the condition on one value.
    mutating func quantified(
        _ quantifier: PredicateComparison.Quantifier, _ path: ResolvedPath, nullIsFalse: Bool,
        isClosed: Bool = true, _ test: @escaping (String, inout SQLBuilder) -> String
    ) throws -> String {
        guard let first = path.firstToMany else { return "0" }
        let scope = levels[path.base]
        let owner = identity(path.steps[..<first], scope)
        let hasSecond = path.steps[(first + 1)...].contains { $0.isToMany }
        let isOfAll = isClosed && !isNarrow && (first > 0 || hasSecond || scope > 0)
        let tables = tables(of: path.steps[first])
        let (holds, joins) = try within(tables, isLevel: false) { builder in
            try builder.holds(path, from: first + 1, followed: isOfAll ? 2 : 1) { value, builder in
                let holds = test(value, &builder)
                return quantifier == .all ? "\(holds) IS NOT TRUE" : holds
            }
        }
        guard isOfAll else {
            let from = Self.from(tables, of: owner, joins: joins)
            return "\(quantifier == .any ? "" : "NOT ")EXISTS (SELECT 1 FROM \(from) AND \(holds))"
        }
        let near = tables.first?.near ?? "NULL"
        let from = Self.from(tables, joins: joins)
        let isFound = "\(owner) IN (SELECT \(near) FROM \(from) AND \(holds))"
        // Without an owner it is NULL where there is none to be found, which is no unknown.
        // No parentheses more than it needs: SQLite bounds how deep they nest.
        let isKnown = quantifier == .any ? nullIsFalse ? "" : " IS TRUE" : " IS NOT TRUE"
        return "(\(isFound)\(isKnown))"
    }

    /// A condition on the end of a path, after the first part of the path was followed; about the
    /// innermost scope.
    ///
    /// The second to-many is looked into for each object of the first, where the first is too. Else
    /// it is asked whether the object is in the set of those for which the rest holds, which SQLite
    /// makes once: to follow every way there is would take as long as the numbers of members
    /// multiplied.
    private mutating func holds(
        _ path: ResolvedPath, from start: Int, followed: Int,
        _ test: @escaping (String, inout SQLBuilder) -> String
    ) throws -> String {
        let scope = scopes.count - 1
        guard let next = path.steps.indices.first(where: { $0 >= start && path.steps[$0].isToMany })
        else { return test(try value(path.terminal, path.steps[start...], scope), &self) }
        let owner = identity(path.steps[start..<next], scope)
        let tables = tables(of: path.steps[next])
        let (holds, joins) = try within(tables, isLevel: false) { builder in
            try builder.holds(path, from: next + 1, followed: followed + 1, test)
        }
        if followed == 1 {
            let from = Self.from(tables, of: owner, joins: joins)
            return "EXISTS (SELECT 1 FROM \(from) AND \(holds))"
        }
        let near = tables.first?.near ?? "NULL"
        let from = Self.from(tables, joins: joins)
        return "\(owner) IN (SELECT \(near) FROM \(from) AND \(holds))"
    }

    // MARK: Aggregates

    /// What is made of the objects that a to-many leads to.
    ///
    /// - Parameter path: a path that ends in a count or another aggregate.
    mutating func collected(_ path: ResolvedPath, _ scope: Int) throws -> String {
        let aggregate: ResolvedAggregate
        switch path.terminal {
        case .aggregate(let found): aggregate = found
        case .count(let relationship):
            aggregate = ResolvedAggregate(
                kind: .count, relationship: relationship, level: levels.count, type: .integer64)
        default: return "NULL"
        }
        let isClosed = (aggregate.filter?.lowestLevel ?? .max) >= aggregate.level
        let isOfAll = isClosed && !isNarrow && (!path.steps.isEmpty || scope > 0)
        var key = path
        // Within one scope only the way matters, and not the level that it is written at.
        key.base = 0
        let known = isOfAll ? scopes[scope].aggregates[key] : nil
        if let known { return Self.value(of: aggregate, in: known) }

        let owner = identity(path.steps[...], scope)
        let tables = tables(of: aggregate.relationship)
        let (parts, joins) = try within(tables, isLevel: true) { builder in
            let filter = try aggregate.filter.map { " AND \(try builder.condition($0))" } ?? ""
            return (try builder.result(of: aggregate), filter)
        }
        let (result, filter) = parts
        guard isOfAll else {
            let from = Self.from(tables, of: owner, joins: joins)
            return "(SELECT \(result) FROM \(from)\(filter))"
        }
        let near = tables.first?.near ?? "NULL"
        let table = alias("g")
        let from = Self.from(tables, joins: joins)
        scopes[scope].text +=
            " LEFT JOIN (SELECT \(near) AS k, \(result) AS v FROM \(from)\(filter)"
            + " GROUP BY \(near)) AS \(table) ON \(table).k = \(owner)"
        scopes[scope].count += 1
        scopes[scope].aggregates[key] = table
        return Self.value(of: aggregate, in: table)
    }

    /// The aggregate in a table that has it for every owner of any objects.
    private static func value(of aggregate: ResolvedAggregate, in table: String) -> String {
        switch aggregate.kind {
        case .count, .distinctCount: "ifnull(\(table).v, 0)"
        case .sum:
            // A sum that its type cannot hold is NULL too.
            "CASE WHEN \(table).k IS NULL THEN \(aggregate.type == .decimal ? "'0'" : "0") "
                + "ELSE \(table).v END"
        case .average, .minimum, .maximum: "\(table).v"
        }
    }

    /// The aggregate over the rows of the innermost scope.
    private mutating func result(of aggregate: ResolvedAggregate) throws -> String {
        guard aggregate.kind != .count, let path = aggregate.value else { return "count(*)" }
        let value = try value(path)
        switch aggregate.kind {
        case .count: return "count(*)"
        case .distinctCount: return "count(DISTINCT \(value))"
        case .minimum: return "min(\(ordered(value, path.type)))"
        case .maximum: return "max(\(ordered(value, path.type)))"
        case .sum, .average: return aggregate.kind.sql(of: value, path.type)
        }
    }
}

extension CollectionAggregate {
    /// A sum or a mean in SQL.
    ///
    /// - Parameters:
    ///   - value: SQL of the values.
    ///   - type: their type.
    func sql(of value: String, _ type: AttributeType?) -> String {
        let isSum = self == .sum
        if type?.isInteger == true {
            return "\(FetchCompiler.integerTotalFunction)(\(isSum ? 0 : 1), "
                + "sum(\(value) >> 32), sum(\(value) & 4294967295), count(\(value)))"
        }
        let isDecimal = type == .decimal
        let code = (isDecimal ? 2 : 0) + (isSum ? 0 : 1)
        let none = isSum ? isDecimal ? "'0'" : "0.0" : "NULL"
        return "CASE WHEN count(\(value)) = 0 THEN \(none) "
            + "ELSE \(FetchCompiler.totalFunction)(\(code), \(value)) END"
    }
}
