internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 12: the unresolved conflicts are exactly those the oracle finds, the settled ones are known
/// to it, and what the journal tells of a side is what its transaction wrote.
struct ConflictChecker: Checker {
    let law = 12

    /// The vector that each machine's store may have collapsed.
    private var stable: [Int: VersionVector] = [:]
    /// The vector that any store of a machine may ever have collapsed, and so an image of it.
    private var everStable: [Int: VersionVector] = [:]
    /// What each machine's log has forgotten.
    private var purged: [Int: VersionVector] = [:]
    /// Whose store each machine has.
    private var nodes: [Int: NodeID] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .started(let node, let actor, let vector, _): start(node, actor, vector, run)
        case .stable(let node, let vector, _): declare(vector, node)
        case .purged(let node, let vector): purged[node] = vector
        case .ended(let node, .wiped), .ended(let node, .copyRemoved):
            stable[node] = nil
            purged[node] = nil
        case .ended(let node, .restored): stable[node] = everStable[node]
        case .tookOver(let node, let donor):
            for other in nodes.keys.sorted() where nodes[other] == donor {
                declare(everStable[other] ?? VersionVector(), node)
                purged[node] = purged[other]
            }
        case .read(let node, let reading), .pinned(let node, _, let reading):
            check(reading, node, run)
        case .settled(let final, _):
            for node in final.keys.sorted() {
                guard let reading = final[node] else { continue }
                check(reading, node, run)
                for conflict in reading.conflicts ?? [] {
                    checkSides(conflict, node, run)
                    checkClosed(conflict, node, run)
                }
            }
        default: break
        }
        return findings.take()
    }

    /// A store has collapsed nothing that it does not hold, and a copy what its original had.
    private mutating func start(
        _ node: Int, _ actor: ActorID, _ vector: VersionVector, _ run: RunContext
    ) {
        if node >= run.machines, everStable[node] == nil {
            stable[node] = stable[Int(actor.node.rawValue) - 1]
            everStable[node] = stable[node] ?? VersionVector()
        }
        stable[node] = stable[node]?.meet(vector)
        nodes[node] = actor.node
    }

    private mutating func declare(_ vector: VersionVector, _ node: Int) {
        stable[node, default: VersionVector()].join(vector)
        everStable[node, default: VersionVector()].join(vector)
    }

    /// Whether a conflict is a link's: its subject ends with a row.
    static func isLink(_ id: ConflictID) -> Bool {
        let parts = id.subject.split(separator: ".")
        return parts.count == 2 && parts[0] != "unique" && RowID(parts[1]) != nil
    }

    /// Whether a conflict is a group's: rows with one unique key.
    private static func isGroup(_ id: String) -> Bool {
        ConflictID(id)?.subject.hasPrefix("unique.") ?? false
    }

    // MARK: Open conflicts

    private mutating func check(_ reading: Reading, _ node: Int, _ run: RunContext) {
        let vector = reading.token.versionVector
        guard let conflicts = reading.conflicts, reading.isWhole, run.archive.covers(vector) else {
            return
        }
        let place = "\(Telling.node(node)) generation \(reading.token.generation)"
        var expected: [String: ReferenceModel.OpenConflict] = [:]
        for open in run.archive.oracle(at: vector).openConflicts() { expected[open.id] = open }
        var listed = Set<String>()
        for conflict in conflicts where conflict.isOpen {
            // What a context's save discarded happened on one node alone.
            if conflict.kind == .save { continue }
            let id = conflict.id.description
            if !listed.insert(id).inserted {
                findings.note("twice", "\(place) \(id): expected once, found twice")
            }
            if expected[id] == nil, mayBeUntold(conflict, at: vector, node, run) { continue }
            check(conflict, expected[id], place, node)
            checkVisible(conflict, run.archive.oracle(at: vector), place)
        }
        for id in expected.keys.sorted() where !listed.contains(id) {
            guard let open = expected[id] else { continue }
            // A group is a conflict as long as it is one, whatever is stable, and a count is nobody's.
            let mayBeCollapsed =
                !open.isUnresolved && !Self.isGroup(id) && !open.sides.isEmpty
                && open.sides.allSatisfy { stable[node]?.contains($0) == true }
            let mayBeForgotten =
                !open.deaths.isEmpty
                && open.deaths.allSatisfy { stable[node]?.contains($0) == true }
            if mayBeCollapsed || mayBeForgotten { continue }
            findings.note(
                "missing",
                "\(place) \(id): expected \(open.isUnresolved ? "unresolved" : "settled") of "
                    + "\(Telling.dots(open.sides.sorted())), found not listed")
        }
    }

    /// Whether a node may list a reference that the oracle does not: it has collected the deletes of its
    /// target, or its log was at its limit and has forgotten both the reference and a delete.
    private func mayBeUntold(
        _ conflict: Conflict, at vector: VersionVector, _ node: Int, _ run: RunContext
    ) -> Bool {
        guard conflict.kind == .dangling, let property = conflict.property else { return false }
        let deaths = run.archive.oracle(at: vector).deaths(behind: conflict.id.row, property)
        guard !deaths.isEmpty else { return false }
        func isPurged(_ dot: Dot?) -> Bool {
            dot.map { purged[node]?.contains($0) == true } ?? false
        }
        return deaths.allSatisfy { stable[node]?.contains($0) == true }
            || deaths.contains(where: isPurged) && conflict.sides.map(\.dot).allSatisfy(isPurged)
    }

    private mutating func check(
        _ conflict: Conflict, _ expected: ReferenceModel.OpenConflict?, _ place: String, _ node: Int
    ) {
        let dots = Set(conflict.sides.compactMap(\.dot))
        guard let expected else {
            findings.note(
                "unknown",
                "\(place) \(conflict.id): expected no open conflict, found \(conflict.state) of "
                    + Telling.dots(dots.sorted()))
            return
        }
        let isUnresolved = conflict.state == .unresolved
        if isUnresolved != expected.isUnresolved {
            findings.note(
                "state",
                "\(place) \(conflict.id): expected "
                    + "\(expected.isUnresolved ? "unresolved" : "settled"), found "
                    + "\(conflict.state)")
        }
        if conflict.violation?.rawValue != expected.violation {
            findings.note(
                "violation",
                "\(place) \(conflict.id): expected \(expected.violation ?? "no rule") broken, found "
                    + (conflict.violation?.rawValue ?? "none"))
        }
        // What lost and is stable may have collapsed, and what a group or a count lists is not told
        // side by side.
        let isWhole = expected.sides.subtracting(dots).allSatisfy {
            !isUnresolved && stable[node]?.contains($0) == true
        }
        let isOnly = dots.isSubset(of: expected.sides)
        guard !(isWhole && isOnly), isUnresolved || !Self.isGroup(conflict.id.description) else {
            return
        }
        findings.note(
            "sides",
            "\(place) \(conflict.id): expected the sides "
                + "\(Telling.dots(expected.sides.sorted())), found \(Telling.dots(dots.sorted()))")
    }

    /// Checks that readers see what an open conflict marks as visible, also if the object is united
    /// with others.
    private mutating func checkVisible(
        _ conflict: Conflict, _ oracle: ReferenceModel, _ place: String
    ) {
        guard !findings.isFull("visible") else { return }
        for side in conflict.sides {
            let isSeen: Bool
            switch conflict.kind {
            case .update:
                guard let name = conflict.property else { return }
                let row = side.object?.row ?? conflict.id.row
                let shown = oracle.shownWrite(of: row, name)
                let isShown = shown.map { $0.dot == side.dot && $0.value == side.value }
                // One save may have written a value to several rows: one of them is marked.
                if isShown == true, side.object != nil, !side.isVisible,
                    conflict.sides.contains(where: { $0.isVisible && $0.dot == side.dot })
                {
                    continue
                }
                isSeen = isShown ?? false
            case .uniqueness where side.isVisible && !conflict.policy.leavesUnresolved:
                isSeen = side.row.allSatisfy {
                    oracle.rawValue(conflict.id.row, $0.name) == $0.value
                }
            default: continue
            }
            if isSeen == side.isVisible { continue }
            findings.note(
                "visible",
                "\(place) \(conflict.id) side \(side.dot?.description ?? "-"): expected "
                    + "\(isSeen ? "seen" : "not seen") by readers, found it marked otherwise")
        }
    }

    // MARK: What the journal tells

    /// A closed conflict was one: none of its sides' transactions had seen another. Its resolution
    /// had seen them all.
    private mutating func checkClosed(_ conflict: Conflict, _ node: Int, _ run: RunContext) {
        guard !conflict.isOpen, !findings.isFull("closed") else { return }
        let sides = conflict.sides.compactMap(\.dot)
        let place = "\(Telling.node(node)) \(conflict.id)"
        switch conflict.kind {
        case .update, .delete, .row, .link:
            let writers = sides.compactMap { run.archive.transaction($0) }
            // Writes to several objects may have seen each other before these became one.
            let isOfSeveral = conflict.sides.contains { $0.object != nil }
            let seen = writers.filter { writer in
                !isOfSeveral
                    && writers.contains { $0.dot != writer.dot && $0.seen.contains(writer.dot) }
            }
            if writers.count < 2 || !seen.isEmpty {
                findings.note(
                    "closed",
                    "\(place): expected that no side had seen another, found "
                        + "\(Telling.dots(sides)), and others had seen of these "
                        + Telling.dots(seen.map(\.dot)))
            }
        case .uniqueness, .dangling, .count, .save: break
        }
        guard let closer = conflict.closedBy.flatMap({ run.archive.transaction($0) }) else {
            return
        }
        let unseen = sides.filter { $0 != closer.dot && !closer.seen.contains($0) }
        if conflict.state == .resolved, !unseen.isEmpty {
            findings.note(
                "closed",
                "\(place): expected that \(closer.dot), which resolved it, had seen all sides, "
                    + "found that it had not seen \(Telling.dots(unseen))")
        }
    }

    private mutating func checkSides(_ conflict: Conflict, _ node: Int, _ run: RunContext) {
        for side in conflict.sides {
            guard let dot = side.dot, !findings.isFull("side") else { continue }
            guard let transaction = run.archive.transaction(dot) else {
                findings.note(
                    "side",
                    "\(Telling.node(node)) \(conflict.id) side \(dot): expected a transaction, "
                        + "found that nobody was seen to commit it")
                continue
            }
            for line in untruths(of: side, transaction, conflict, run) {
                findings.note(
                    "side", "\(Telling.node(node)) \(conflict.id) side \(dot): \(line)")
            }
        }
    }

    /// The differences between a side and its transaction.
    private func untruths(
        of side: ConflictSide, _ transaction: Transaction, _ conflict: Conflict,
        _ run: RunContext
    ) -> [String] {
        var lines: [String] = []
        if let timestamp = side.timestamp, timestamp != transaction.timestamp {
            lines.append("expected the time \(transaction.timestamp), found \(timestamp)")
        }
        // Of a group each side is another row's.
        let row = side.object?.row ?? conflict.id.row
        if conflict.kind == .link {
            guard case .reference(let target)? = side.value else { return lines }
            let kind: Change.Kind = side.isDeleted ? .unlink : .link
            let isThere = transaction.changes.contains {
                $0.kind == kind && $0.row == row && $0.target == target
            }
            if !isThere { lines.append("expected another change than \(kind), found it told") }
            return lines
        }
        func values(_ transaction: Transaction) -> [String: PropertyValue] {
            run.archive.values(of: row, in: transaction, isClosed: !conflict.isOpen)
        }
        let written = values(transaction)
        let isDelete = transaction.changes.contains { $0.kind == .delete && $0.row == row }
        if side.isDeleted, !isDelete { lines.append("expected a write, found a delete told") }
        var told: [(String, PropertyValue, Dot?)] = side.row.map {
            ($0.name, $0.value, $0.stamp?.dot)
        }
        if let property = conflict.property, let value = side.value {
            told.append((property, value, nil))
        }
        for (name, value, other) in told {
            // A side lists as well what it stands on, each with its own writer.
            let writer = other.map { run.archive.transaction($0) } ?? transaction
            let values = other == nil ? written : writer.map(values) ?? [:]
            if (values[name] ?? .null) == value { continue }
            // What a survivor showed may have been written to a row that it eclipsed then.
            let mayBeGroups = conflict.kind == .dangling || conflict.kind == .save
            if mayBeGroups, let writer,
                run.archive.hasWritten(
                    value, to: name, in: writer, isClosed: !conflict.isOpen)
            {
                continue
            }
            lines.append(
                "\(name) by \(other ?? transaction.dot): expected "
                    + "\(Telling.value(values[name])), found \(Telling.value(value))")
        }
        return lines
    }
}

extension Transaction {
    /// Whether a transaction wrote a value to a property of any row.
    func hasWritten(_ value: PropertyValue, to name: String) -> Bool {
        changes.contains { values(of: $0.row)[name] == value }
    }

    /// A transaction's values of a row, by property.
    func values(of row: RowID) -> [String: PropertyValue] {
        var result: [String: PropertyValue] = [:]
        for change in changes
        where change.row == row && change.target == nil && change.kind != .delete {
            guard shapes.indices.contains(change.shape) else { continue }
            let shape = shapes[change.shape]
            for (name, value) in zip(shape.assigned + shape.carried, change.values) {
                result[name] = value
            }
        }
        return result
    }
}
