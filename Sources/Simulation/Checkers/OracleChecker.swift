internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 3: every row of every reading is what the oracle computes from the set of saves that the
/// reading's own vector names: there or not, values, version, members, and how many there are.
///
/// Since every reading is compared at its own vector, a transaction that shows in part only is
/// found here as well (law 4, atomic visibility).
struct OracleChecker: Checker {
    let law = 3

    private var findings = Findings()
    /// The conflicted rows at the state last looked at.
    private var conflicted: (state: State, rows: Set<String>)?

    /// The state that an oracle's answers depend on: also the model, because policies go with it.
    private struct State: Equatable {
        let vector: VersionVector
        let edition: Int
        let subjects: Set<String>
    }

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .read(let node, let reading), .pinned(let node, _, let reading):
            check(reading, node, run)
        case .settled(let final, _):
            for node in final.keys.sorted() {
                if let reading = final[node] { check(reading, node, run) }
            }
        default: break
        }
        return findings.take()
    }

    private mutating func check(_ reading: Reading, _ node: Int, _ run: RunContext) {
        let vector = reading.token.versionVector
        // What nobody was seen to commit is law 11's to tell.
        guard run.archive.covers(vector) else { return }
        if reading.isWhole {
            let oracle = run.archive.oracle(at: vector)
            for entity in reading.entities { check(entity, oracle, vector, [], node, run) }
            checkComplete(reading, oracle, node)
            for members in reading.members { check(members, oracle, node) }
            return
        }
        for entity in reading.entities {
            let subjects = Self.subjects(ofEntity: entity.entity, run.model)
            let oracle = run.archive.oracle(at: vector, of: subjects)
            check(entity, oracle, vector, subjects, node, run)
        }
        for members in reading.members {
            let subjects = Self.subjects(of: members, run.model)
            check(members, run.archive.oracle(at: vector, of: subjects), node)
        }
        for list in reading.lists {
            let subjects = Self.subjects(ofEntity: list.entity, run.model)
            check(list, run.archive.oracle(at: vector, of: subjects), node, run.model)
        }
        for id in reading.absent {
            let subjects = Self.subjects(ofEntity: id.entityName, run.model)
            let oracle = run.archive.oracle(at: vector, of: subjects)
            guard oracle.entity(of: id.row) == id.entityName else { continue }
            findings.note(
                "existence",
                "\(Telling.node(node)) \(id): expected with version "
                    + "\(Telling.dots((oracle.version(id.row) ?? []).sorted())), found gone")
        }
    }

    // MARK: What a reading depends on

    /// An entity's hierarchy and those that its references lead to.
    static func subjects(ofEntity name: String, _ model: ManagedObjectModel) -> Set<String> {
        guard let root = model.entity(named: name)?.root else { return [name] }
        var result: Set<String> = [root]
        // Of all heirs, because they compete for the targets of a one-to-one.
        for heir in model.entity(named: root)?.familyNames ?? [] {
            for property in model.entity(named: heir)?.properties ?? [] {
                guard case .toOne(let destination) = property.content else { continue }
                result.insert(model.entity(named: destination)?.root ?? destination)
            }
        }
        return result
    }

    private static func subjects(
        of members: Reading.MembersReading, _ model: ManagedObjectModel
    ) -> Set<String> {
        let entity = model.entity(named: members.object.entityName)
        guard let relationship = entity?.relationship(named: members.relationship) else {
            return subjects(ofEntity: members.object.entityName, model)
        }
        var result = subjects(ofEntity: members.object.entityName, model)
        result.formUnion(subjects(ofEntity: relationship.destination, model))
        if case .link(let name, _) = relationship.storage { result.insert(name) }
        return result
    }

    // MARK: Rows

    private mutating func check(
        _ reading: Reading.EntityReading, _ oracle: ReferenceModel, _ vector: VersionVector,
        _ subjects: Set<String>, _ node: Int, _ run: RunContext
    ) {
        guard let entity = run.model.entity(named: reading.entity) else {
            findings.note("entity", "\(Telling.node(node)): no entity \(reading.entity)")
            return
        }
        var expected = Set(oracle.rows(entity.name))
        let conflicted = conflictedRows(
            oracle, State(vector: vector, edition: run.archive.edition, subjects: subjects))
        for row in reading.rows {
            guard expected.remove(row.objectID.row) != nil,
                row.objectID.entityName == entity.name
            else {
                findings.note(
                    "existence",
                    "\(Telling.node(node)) \(row.objectID) among \(entity.name): expected gone, "
                        + "found with version \(row.version), after "
                        + run.archive.history(of: row.objectID.row))
                continue
            }
            check(row, entity, oracle, node)
            let isConflicted = conflicted.contains("\(entity.name).\(row.objectID.row)")
            if row.isConflicted != isConflicted {
                findings.note(
                    "conflicted",
                    "\(Telling.node(node)) \(row.objectID) unresolved: expected \(isConflicted), "
                        + "found \(row.isConflicted)")
            }
        }
        for row in expected.sorted() where reading.isWhole {
            findings.note(
                "existence",
                "\(Telling.node(node)) \(entity.name)/\(row): expected with version "
                    + "\(Telling.dots((oracle.version(row) ?? []).sorted())), found gone")
        }
    }

    private mutating func check(
        _ row: RowSnapshot, _ entity: ManagedObjectModel.Entity, _ oracle: ReferenceModel,
        _ node: Int
    ) {
        guard row.values.count == entity.columns.count else {
            findings.note(
                "value",
                "\(Telling.node(node)) \(row.objectID): expected \(entity.columns.count) "
                    + "values, found \(row.values.count)")
            return
        }
        for (property, found) in zip(entity.properties, row.values) {
            let expected = oracle.value(row.objectID.row, property.name) ?? .null
            if expected == found { continue }
            let winner = oracle.winner(row.objectID.row, property.name)
            findings.note(
                "value",
                "\(Telling.node(node)) \(row.objectID).\(property.name): expected "
                    + "\(Telling.value(expected)) by \(winner?.description ?? "nobody"), found "
                    + "\(Telling.value(found))")
        }
        // A survivor's version has those of the rows it eclipses, each under its row.
        let expected = RowVersion(
            dots: Array(oracle.version(row.objectID.row) ?? []),
            eclipsed: oracle.eclipsed(by: row.objectID.row).map {
                RowVersion.Eclipsed(row: $0.row, dots: Array($0.version))
            })
        if expected != row.version {
            findings.note(
                "version",
                "\(Telling.node(node)) \(row.objectID) version: expected \(expected), found "
                    + "\(row.version)")
        }
    }

    /// The rows with an unresolved conflict, as `Entity.pDECIMAL`; links apart, which are of two.
    private mutating func conflictedRows(
        _ oracle: ReferenceModel, _ state: State
    ) -> Set<String> {
        if let conflicted, conflicted.state == state { return conflicted.rows }
        var rows = Set<String>()
        for name in oracle.unresolvedConflicts() {
            guard let id = ConflictID(name), !ConflictChecker.isLink(id) else { continue }
            rows.insert("\(id.entity).\(id.row)")
        }
        conflicted = (state, rows)
        return rows
    }

    /// A whole reading has every living row.
    private mutating func checkComplete(_ reading: Reading, _ oracle: ReferenceModel, _ node: Int) {
        let read = Set(reading.entities.map(\.entity))
        for row in oracle.livingRows {
            guard let entity = oracle.entity(of: row), !read.contains(entity) else { continue }
            findings.note(
                "existence",
                "\(Telling.node(node)) \(entity)/\(row): expected, found that a whole reading has "
                    + "no \(entity)")
        }
    }

    private mutating func check(
        _ list: Reading.ListReading, _ oracle: ReferenceModel, _ node: Int,
        _ model: ManagedObjectModel
    ) {
        let family = Set(model.entity(named: list.entity)?.familyNames ?? [])
        let living = oracle.livingRows.compactMap { row in
            oracle.entity(of: row).flatMap { name in
                family.contains(name) ? ManagedObjectID(entityName: name, row: row) : nil
            }
        }
        let expected = Array(living.prefix(list.limit))
        if expected.count == list.count, expected == list.objects ?? expected { return }
        findings.note(
            "list",
            "\(Telling.node(node)) \(list.entity), at most \(list.limit): expected "
                + "\(expected.count), \(expected), found \(list.count), "
                + "\(list.objects.map { "\($0)" } ?? "counted")")
    }

    private mutating func check(
        _ reading: Reading.MembersReading, _ oracle: ReferenceModel, _ node: Int
    ) {
        let expected = oracle.members(reading.object.row, reading.relationship).map {
            ManagedObjectID(entityName: oracle.entity(of: $0) ?? "", row: $0)
        }
        if expected == reading.members { return }
        findings.note(
            "members",
            "\(Telling.node(node)) \(reading.object).\(reading.relationship): expected "
                + "\(expected), found \(reading.members)")
    }
}
