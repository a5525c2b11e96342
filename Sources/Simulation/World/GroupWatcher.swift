internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Counts what becomes of groups of rows with one unique key, at each node, by what the oracle
/// says of every commit. It judges nothing.
struct GroupWatcher {
    /// The groups that a node's store showed.
    private struct Shown {
        var survivors: [RowID: RowID] = [:]
        var led = Set<ReferenceModel.LedReference>()
    }

    private let subjects: Set<String>
    private var shown: [Int: Shown] = [:]

    /// Prepares to watch a model; one without constraints costs nothing.
    init(_ model: ManagedObjectModel) {
        let entities = UniqueKeys.entities(model).map(\.name)
        var subjects = Set<String>()
        if !entities.isEmpty {
            for entity in model.entities {
                let own = OracleChecker.subjects(ofEntity: entity.name, model)
                let isConcerned = entities.contains { name in
                    model.entity(named: name).map { own.contains($0.root) } ?? false
                }
                if isConcerned { subjects.formUnion(own) }
            }
        }
        self.subjects = subjects
    }

    /// Takes in what happened.
    ///
    /// - Returns: the rare paths that it met.
    mutating func observe(_ observation: Observation, _ run: RunContext) -> [Beacon] {
        if subjects.isEmpty { return [] }
        switch observation {
        case .started(let node, _, _, _), .ended(let node, _): shown[node] = nil
        case .committed(let node, let notice): return commit(notice, node, run)
        default: break
        }
        return []
    }

    private mutating func commit(
        _ notice: CommitNotice, _ node: Int, _ run: RunContext
    ) -> [Beacon] {
        let vector = notice.token.versionVector
        guard run.archive.covers(vector) else { return [] }
        let oracle = run.archive.oracle(at: vector, of: subjects)
        let now = Shown(survivors: oracle.survivors, led: oracle.ledReferences)
        defer { shown[node] = now }
        guard let before = shown[node] else { return [] }
        var met: [Beacon] = []
        let isFormed = now.survivors.keys.contains { before.survivors[$0] == nil }
        if isFormed, !notice.isLocal { met.append(.groupFormedByMerge) }
        for (row, survivor) in before.survivors {
            if let other = now.survivors[row] {
                if other != survivor { met.append(.survivorChanged) }
            } else if oracle.isAlive(row) {
                met.append(.eclipsedRowShown)
                if oracle.isAlive(survivor) { met.append(.groupDissolvedByKey) }
            }
        }
        if !now.led.subtracting(before.led).isEmpty { met.append(.referenceLedToSurvivor) }
        for led in before.led.subtracting(now.led) {
            let own = PropertyValue.reference(led.target)
            if oracle.rawValue(led.row, led.property) == own,
                oracle.value(led.row, led.property) == own
            {
                met.append(.referenceLedBack)
            }
        }
        guard notice.isLocal else { return met }
        for transaction in notice.transactions {
            let rows = Set(transaction.transaction.changes.map(\.row))
            if before.survivors.contains(where: { rows.contains($0.key) && rows.contains($0.value) }
            ) {
                met.append(.saveWrittenToGroup)
            }
        }
        return met
    }
}
