package import Merge

import struct Foundation.Date

/// A fetch as SQL. Values are bound in order; names come from the model and are quoted.
package struct CompiledFetch: Hashable, Sendable {
    /// A column of a dictionary fetch.
    package struct Column: Hashable, Sendable {
        /// The key in the result.
        package let name: String
        /// The content of the column.
        package let content: ManagedObjectModel.Property.Content
    }

    /// The statement.
    package let sql: String
    /// The values of its `?`, in order, as their columns keep them.
    package let bindings: [PropertyValue]
    /// Of a dictionary fetch what its columns are, in order; of objects what they are sorted by, where
    /// that is selected too.
    package let columns: [Column]
    /// What it asks for, without its constants.
    let shape: RequestShape
    /// Whether it finds a range in no order but that of identities, and would do so by an index.
    let isRange: Bool
}

/// Compiles fetch requests to SQL over the store's tables.
///
/// Every object comes once, however many related objects match, because to-manys are asked in
/// subqueries, or joined as one row for each owner. Order is total: what is equal in it comes by identity.
package struct FetchCompiler: Sendable {
    static let foldFunction = "tributary_fold"
    static let textFunction = "tributary_text"
    static let applyFunction = "tributary_apply"
    static let collationKeyFunction = "tributary_collation_key"
    static let totalFunction = "tributary_total"
    static let integerTotalFunction = "tributary_integer_total"
    static let decimalCollation = "tributary_decimal"
    static let integerSumFunction = "tributary_integer_sum"
    static let decimalSumFunction = "tributary_decimal_sum"
    static let decimalAverageFunction = "tributary_decimal_average"

    let model: ManagedObjectModel
    let codes: EntityCodes
    let cluster: String?
    private let now: @Sendable () -> Int64

    /// The time of the computer, in milliseconds since 1970.
    package static let wallClock: @Sendable () -> Int64 = {
        Int64((Date().timeIntervalSince1970 * 1_000).rounded(.down))
    }

    /// Makes a compiler.
    ///
    /// - Parameters:
    ///   - model: the model.
    ///   - codes: what column `_entity` holds.
    ///   - cluster: the cluster that object URIs must have; nil for any.
    ///   - now: gives what `now()` is, in milliseconds since 1970; asked once a request at most.
    package init(
        model: ManagedObjectModel, codes: EntityCodes, cluster: String? = nil,
        now: @escaping @Sendable () -> Int64 = FetchCompiler.wallClock
    ) {
        self.model = model
        self.codes = codes
        self.cluster = cluster
        self.now = now
    }

    /// Compiles a request.
    ///
    /// - Parameters:
    ///   - request: what to fetch.
    ///   - columns: of a fetch of objects, what to select: SQL over the alias `t0` of the
    ///     entity's table, written by the store and never taken from outside. Empty gives
    ///     `t0._id`, and `t0._entity` where the table is shared.
    ///   - selectsSortKeys: whether what objects are sorted by is selected after these columns.
    ///   - excluded: rows that are not to be found.
    ///   - isHeld: whether all that is found will be held in memory, so that it can be sorted there.
    /// - Throws: ``PredicateError`` or ``FetchRequestError``.
    package func compile(
        _ request: FetchRequest, selecting columns: [String] = [], selectsSortKeys: Bool = false,
        without excluded: [RowID] = [], isHeld: Bool = false
    ) throws -> CompiledFetch {
        guard let entity = model.entity(named: request.entityName) else {
            throw FetchRequestError("there is no entity \"\(request.entityName)\"")
        }
        try check(request)
        var paths = PathResolver(model: model, entity: entity)
        var resolver = PredicateResolver(paths: paths, cluster: cluster, now: now)
        let predicate = try resolver.resolve(request.predicate ?? .constant(true))

        var builder = SQLBuilder(model: model, codes: codes)
        builder.literalTerms = model.partialTerms(of: entity)
        var conditions = builder.entityCondition(
            entity, includesSubentities: request.includesSubentities, alias: "t0")
        if predicate != .constant(true) {
            conditions.append(try builder.fetchCondition(predicate))
        }
        if !excluded.isEmpty { conditions.append(builder.isNone(of: excluded)) }
        var selection = Selection(expressions: columns, columns: [])
        if request.resultType == .dictionary {
            selection = try DictionarySelection(request, paths, &builder).selection()
        } else if columns.isEmpty {
            selection.expressions = ["t0._id"] + (entity.sharesTable ? ["t0._entity"] : [])
        }
        if request.resultType == .count { selection.expressions = ["1"] }
        if selectsSortKeys {
            for descriptor in request.sortDescriptors {
                let key = try ResolvedSortKey(descriptor, paths)
                selection.expressions.append(try key.sql(&builder))
                selection.columns.append(
                    .init(name: descriptor.keyPath, content: .attribute(key.type ?? .integer64)))
            }
        }
        if let names = selection.names { paths.columns = names }
        builder.columnExpressions = selection.expressionsByPosition

        var tail = ""
        if !selection.groups.isEmpty {
            tail += " GROUP BY \(selection.groups.joined(separator: ", "))"
            if let having = request.havingPredicate {
                resolver.paths = paths
                tail += " HAVING \(try builder.condition(try resolver.resolve(having)))"
            }
        }
        let shape = RequestShape(request, predicate, of: entity)
        // SQLite takes a table that is in order already, and tests each row, before an index that leaves a
        // range to be put in order. The sign keeps it from seeing the table's order.
        let isRange =
            isHeld && request.sortDescriptors.isEmpty && request.fetchLimit == 0
            && !shape.ranged.isEmpty
        tail += try order(
            request, paths, selection, &builder,
            identity: isRange && shape.isRangeOfAnIndex(entity) ? "+t0._id" : "t0._id")
        if request.fetchLimit > 0 || request.fetchOffset > 0 {
            let limit = request.fetchLimit > 0 ? Int64(request.fetchLimit) : -1
            tail += " LIMIT \(builder.bind(.integer(limit)))"
            tail += " OFFSET \(builder.bind(.integer(Int64(request.fetchOffset))))"
        }
        let distinct =
            request.resultType == .dictionary && request.returnsDistinctResults ? "DISTINCT " : ""
        var sql =
            "SELECT \(distinct)\(selection.expressions.joined(separator: ", "))"
            + " FROM \(builder.table(entity.name)) AS t0\(try builder.joinText())"
        if !conditions.isEmpty { sql += " WHERE \(conditions.joined(separator: " AND "))" }
        sql += tail
        if request.resultType == .count { sql = "SELECT count(*) FROM (\(sql))" }
        let statement = builder.finished(sql)
        return CompiledFetch(
            sql: statement.sql, bindings: statement.bindings, columns: selection.columns,
            shape: shape, isRange: isRange)
    }

    private func check(_ request: FetchRequest) throws(FetchRequestError) {
        guard request.fetchLimit >= 0, request.fetchOffset >= 0, request.fetchBatchSize >= 0 else {
            throw FetchRequestError("limit, offset and batch size cannot be below 0")
        }
        guard request.sortDescriptors.count <= 32, request.propertiesToFetch.count <= 500,
            request.propertiesToGroupBy.count <= 32
        else {
            throw FetchRequestError(
                "a fetch has at most 32 sort keys, 32 keys to group by and 500 properties")
        }
        guard request.havingPredicate == nil || !request.propertiesToGroupBy.isEmpty else {
            throw FetchRequestError("having needs something to group by")
        }
        guard request.resultType != .dictionary else { return }
        guard request.propertiesToGroupBy.isEmpty else {
            throw FetchRequestError("only a dictionary fetch can group")
        }
        for case .aggregate(let name, _, _) in request.propertiesToFetch {
            throw FetchRequestError(
                "only a dictionary fetch can have aggregates, such as \"\(name)\"")
        }
    }

    private func order(
        _ request: FetchRequest, _ paths: PathResolver, _ selection: Selection,
        _ builder: inout SQLBuilder, identity: String
    ) throws -> String {
        if request.resultType == .count { return "" }
        var keys: [String] = []
        for descriptor in request.sortDescriptors {
            let expression: String
            // Of groups it is one of their names.
            if request.resultType == .dictionary, paths.columns == nil,
                descriptor.comparison == .value, PeriodKey.isFunction(descriptor.keyPath)
            {
                expression = try PeriodKey(descriptor.keyPath, paths).sql(&builder)
            } else {
                let key = try ResolvedSortKey(descriptor, paths)
                expression = builder.ordered(try key.sql(&builder), key.type)
            }
            keys.append("\(expression) \(descriptor.ascending ? "ASC" : "DESC")")
        }
        keys += selection.tieBreakers ?? [identity]
        return keys.isEmpty ? "" : " ORDER BY \(keys.joined(separator: ", "))"
    }
}

/// The selection of a fetch.
struct Selection {
    /// The expressions, in order.
    var expressions: [String]
    /// The columns of the values, if values are selected.
    var columns: [CompiledFetch.Column]
    /// The expressions to group by.
    var groups: [String] = []
    /// The meaning of names in having and in the order, if rows are no objects.
    var names: [(name: String, position: Int, type: AttributeType)]?
    /// The expressions that `names` means.
    var expressionsByPosition: [String] = []
    /// The terms that make the order total; nil for the identity.
    var tieBreakers: [String]?
}
