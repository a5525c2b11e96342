internal import Coordinator
internal import Merge
internal import Replication

/// Saves with an ID that are repeated: at once, much later, and where the client was not told what
/// became of them.
struct Repeating: Workload {
    let name = "repeating"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !ModelStructure.attributes($0).isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        if generator.chance(in: 2), ask(session) { return }
        if generator.chance(in: 4), !session.memory.answered.isEmpty {
            let place = generator.number(below: session.memory.answered.count)
            let (request, result) = session.memory.answered[place]
            repeatAnswered(request, result, session)
            return
        }
        let request = compose(session, &generator)
        // Where the outcome is unknown, the world notes the request as unanswered.
        guard let result = session.save(request) else { return }
        session.memory.answered.append((request, result))
        session.memory.answered = session.memory.answered.suffix(6)
        if generator.chance(in: 2) { repeatAnswered(request, result, session) }
    }

    private func compose(
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> SaveRequest {
        var composer = SaveComposer(session)
        let entities = ModelStructure.concrete(session.model).filter {
            !ModelStructure.attributes($0).isEmpty
        }
        if let entity = generator.choice(entities) {
            let rows = session.rows(entity, &generator)
            if let row = generator.hot(rows), rows.count > 6 || generator.chance(2, in: 3) {
                composer.update(row, &generator)
            } else {
                composer.insert(entity, &generator)
            }
        }
        // With chance in it, so that a copy of the machine does not use the same.
        let name = "n\(session.node)-\(session.memory.counter)-\(generator.next() % 1_000_000)"
        return composer.request(saveID: name, &generator)
    }

    /// Repeats what a save that was answered asked for, if the store still knows it: a store that
    /// was lost or restored may not, until the save comes back to it.
    private func repeatAnswered(
        _ request: SaveRequest, _ result: SaveResult, _ session: WorkloadSession
    ) {
        guard let known = answer(to: request, session) else {
            if let dot = result.transaction, hasLostAnswer(to: request, dot, session) {
                session.memory.complain(
                    "save \(request.saveID ?? "") is in history as \(dot), and its answer is not known"
                )
            }
            session.memory.answered.removeAll { $0.request.saveID == request.saveID }
            return
        }
        compare(known, result, request, session)
        if let again = session.save(request) {
            compare(again, result, request, session)
            session.met(.saveRepeated)
        }
    }

    /// Asks what became of the oldest save without an answer, and does it again.
    ///
    /// - Returns: whether there was one.
    private func ask(_ session: WorkloadSession) -> Bool {
        session.memory.unanswered = session.memory.unanswered.suffix(6)
        guard let request = session.memory.unanswered.first else { return false }
        session.memory.unanswered.removeFirst()
        let known = answer(to: request, session)
        // Refused again, or unknown again: a client gives up then.
        guard let result = session.save(request) else { return true }
        if let known {
            compare(result, known, request, session)
            session.met(.saveRepeated)
        }
        session.memory.answered.append((request, result))
        session.memory.answered = session.memory.answered.suffix(6)
        return true
    }

    private func answer(to request: SaveRequest, _ session: WorkloadSession) -> SaveResult? {
        guard let saveID = request.saveID else { return nil }
        return (try? session.coordinator.read { try $0.savedAnswer(saveID) }) ?? nil
    }

    /// In one read, because the one before may have failed by a fault of the disk.
    private func hasLostAnswer(
        to request: SaveRequest, _ dot: Dot, _ session: WorkloadSession
    ) -> Bool {
        let isLost = try? session.coordinator.read { reader in
            try reader.transaction(dot) != nil
                && reader.savedAnswer(request.saveID ?? "") == nil
        }
        return isLost ?? false
    }

    /// Only the first answer has versions of rows.
    private func compare(
        _ one: SaveResult, _ other: SaveResult, _ request: SaveRequest, _ session: WorkloadSession
    ) {
        var one = one
        var other = other
        one.rows = []
        other.rows = []
        if one.isRebuilt || other.isRebuilt {
            session.met(.answerRebuilt)
            let areRowsTold = Self.tellsOfRows(one) && Self.tellsOfRows(other)
            (one, other) = (
                Self.rebuildable(one, areRowsTold), Self.rebuildable(other, areRowsTold)
            )
            other.token = one.token
        }
        if one != other {
            session.memory.complain(
                "save \(request.saveID ?? "") was answered as "
                    + "\(one.transaction?.description ?? "nothing") and as "
                    + "\(other.transaction?.description ?? "nothing")")
        }
    }

    /// Whether an answer has inserted objects under the names of the request.
    private static func tellsOfRows(_ answer: SaveResult) -> Bool {
        !answer.insertedRows.isEmpty
            && answer.insertedRows.allSatisfy { $0.temporary.rawValue < 0 }
    }

    /// The part of an answer that can be rebuilt from its transaction.
    private static func rebuildable(_ answer: SaveResult, _ hasRows: Bool) -> SaveResult {
        var answer = answer
        answer.conflicts = []
        answer.isRebuilt = false
        if !hasRows { answer.insertedRows = [] }
        return answer
    }
}
