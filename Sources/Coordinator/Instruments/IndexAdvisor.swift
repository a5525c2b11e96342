/// Finds indexes for requests, and asks SQLite about each: advised is what it would use.
struct IndexAdvisor {
    /// How many rows are looked at to say how large an index would be.
    private static let sample = 1_000
    /// How full the pages of a b-tree are that grows in no order.
    private static let fillOfPages = 0.7

    private let reader: StoreReader
    private let trial: IndexTrial

    init(_ reader: StoreReader) throws {
        self.reader = reader
        trial = try IndexTrial(of: reader.database)
    }

    /// An index that would serve something. It is of the whole table, so that it serves requests for other
    /// entities of the hierarchy too.
    private struct Found {
        let entity: ManagedObjectModel.Entity
        let columns: [IndexDescription.Element]
        var requests: [ObservedRequest]
    }

    func advice(for requests: [ObservedRequest]) throws -> [IndexAdvice] {
        var found: [Found] = []
        let uses = uses(in: requests)
        for request in requests {
            try reader.checkGoingOn()
            guard let sql = request.sql,
                let entity = reader.catalog.model.entity(named: request.shape.entity)
            else { continue }
            let candidates = Self.candidates(for: request.shape, uses[entity.root] ?? [:])
            guard let columns = try chosen(candidates, entity, sql) else { continue }
            if let known = found.firstIndex(where: {
                $0.entity.root == entity.root && $0.columns == columns
            }) {
                found[known].requests.append(request)
            } else {
                found.append(Found(entity: entity, columns: columns, requests: [request]))
            }
        }
        var taken: [String: Set<String>] = [:]
        var rows: [String: Int] = [:]
        return try joined(found).map { one in
            try reader.checkGoingOn()
            // Counting reads a whole b-tree, so each table is counted once.
            let count = try rows[one.entity.root] ?? reader.rowCount(of: one.entity)
            rows[one.entity.root] = count
            let name = name(of: one, taken[one.entity.name] ?? [])
            taken[one.entity.name, default: []].insert(name.lowercased())
            return try described(
                one, IndexDescription(name: name, elements: one.columns), rows: count)
        }.sorted {
            ($1.milliseconds, $1.count, $0.entity, $0.index.name)
                < ($0.milliseconds, $0.count, $1.entity, $1.index.name)
        }
    }

    /// How many requests compare each property for equality, by the root of their entity.
    private func uses(in requests: [ObservedRequest]) -> [String: [String: UInt64]] {
        var uses: [String: [String: UInt64]] = [:]
        for request in requests {
            guard let entity = reader.catalog.model.entity(named: request.shape.entity) else {
                continue
            }
            for name in request.shape.equal {
                uses[entity.root, default: [:]][name, default: 0] += request.count
            }
        }
        return uses
    }

    /// Lists of properties that may serve a shape: those compared for equality, then one range or what
    /// is sorted by, in the directions asked for.
    ///
    /// - Parameter uses: how many requests compare each for equality. The most used come first, so that
    ///   one index serves requests for some of them too.
    static func candidates(
        for shape: RequestShape, _ uses: [String: UInt64]
    ) -> [[IndexDescription.Element]] {
        let names = shape.equal.sorted { (uses[$1] ?? 0, $0) < (uses[$0] ?? 0, $1) }
        let equal = names.map { IndexDescription.Element($0) }
        func adding(_ elements: [IndexDescription.Element]) -> [IndexDescription.Element] {
            equal + elements.filter { !names.contains($0.property) }
        }
        let sort = shape.sort.map {
            IndexDescription.Element($0.property, ascending: $0.isAscending)
        }
        let lists = [adding(sort)] + shape.ranged.map { adding([.init($0)]) } + [equal]
        var result: [[IndexDescription.Element]] = []
        for list in lists where !list.isEmpty && !result.contains(list) {
            result.append(Array(list.prefix(RequestShape.maximumColumns)))
        }
        return result
    }

    /// The candidate that SQLite takes, offered all of them; nil where it takes none.
    private func chosen(
        _ candidates: [[IndexDescription.Element]], _ entity: ManagedObjectModel.Entity,
        _ sql: String
    ) throws -> [IndexDescription.Element]? {
        let known = try trial.indexes(of: entity.root)
        let candidates = candidates.filter { candidate in
            !known.contains { $0.starts(with: candidate) }
        }
        guard !candidates.isEmpty else { return nil }
        let named = candidates.enumerated().map { (name: "_candidate\($0)", columns: $1) }
        let plan = try trial.with(named, on: entity.root) { try trial.plan(of: sql) }
        return named.first { plan.uses($0.name) }?.columns
    }

    /// The indexes without those that are the beginning of another which serves the same.
    private func joined(_ found: [Found]) throws -> [Found] {
        var result: [Found] = []
        for one in found.sorted(by: { $0.columns.count > $1.columns.count }) {
            try reader.checkGoingOn()
            let longer = result.firstIndex {
                $0.entity.root == one.entity.root && $0.columns.starts(with: one.columns)
            }
            guard let longer else {
                result.append(one)
                continue
            }
            let index = (name: "_candidate", columns: result[longer].columns)
            let serves = try trial.with([index], on: one.entity.root) {
                try one.requests.allSatisfy { try trial.plan(of: $0.sql ?? "").uses(index.name) }
            }
            if serves {
                result[longer].requests += one.requests
            } else {
                result.append(one)
            }
        }
        return result
    }

    private func described(
        _ found: Found, _ index: IndexDescription, rows: Int
    ) throws -> IndexAdvice {
        let before = try found.requests.map { try trial.plan(of: $0.sql ?? "") }
        // Named as a store would name it.
        let name = "\(found.entity.name).\(index.name)"
        let after = try trial.with([(name, index.elements)], on: found.entity.root) {
            try found.requests.map { try trial.plan(of: $0.sql ?? "") }
        }
        let served = zip(found.requests, zip(before, after)).map {
            IndexAdvice.Served(request: $0, planBefore: $1.0, planAfter: $1.1)
        }
        let bytes = try reader.meanKeyBytes(
            of: found.entity, index.elements.map(\.property), sampling: Self.sample)
        return IndexAdvice(
            entity: found.entity.name, index: index,
            served: served.sorted {
                ($0.request.milliseconds, $0.request.count)
                    > ($1.request.milliseconds, $1.request.count)
            }, rows: rows, bytes: Int(Double(rows) * bytes / Self.fillOfPages))
    }

    /// A name that an entity has for no index yet, such as `byNameAge`.
    private func name(of found: Found, _ others: Set<String>) -> String {
        let words = found.columns.map {
            $0.property.prefix(1).uppercased() + $0.property.dropFirst()
        }
        // The model's bound for names, with room for a number.
        let base = String(("by" + words.joined()).prefix(100))
        // Tables of links are named as indexes are.
        let prefix = "\(found.entity.name.lowercased())."
        let taken = others.union(found.entity.indexes.map { $0.name.lowercased() }).union(
            reader.catalog.model.links.map { $0.name.lowercased() }
                .filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.utf8.count)) })
        var name = base
        var number = 2
        while taken.contains(name.lowercased()) {
            name = "\(base)\(number)"
            number += 1
        }
        return name
    }
}

extension QueryPlan {
    /// Whether rows are found by an index.
    fileprivate func uses(_ index: String) -> Bool {
        steps.contains { $0.detail.split(separator: " ").contains(Substring(index)) }
    }
}
