internal import Coordinator
internal import Merge

/// Law 11: a dot names one content for ever, an actor's sequences have no gaps, and no actor has
/// two lives. Keeps the run's archive, so it comes first.
struct DotChecker: Checker {
    let law = 11

    private var lives: [ActorID: Int] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .started(let node, let actor, let vector, _): start(node, actor, vector, run)
        case .found(let node, let transactions):
            for transaction in transactions { add(transaction, node, run) }
        case .committed(let node, let notice):
            for transaction in notice.transactions { add(transaction, node, run) }
        case .settled(let final, _): settle(final, run.archive)
        default: break
        }
        return findings.take()
    }

    private mutating func start(
        _ node: Int, _ actor: ActorID, _ vector: VersionVector, _ run: RunContext
    ) {
        if let other = lives.updateValue(node, forKey: actor) {
            findings.note(
                "actor",
                "\(Telling.node(node)) started as \(actor): expected an actor of its own, found "
                    + "one that \(Telling.node(other)) has lived as")
        }
        // A copy has the number of its original, and a machine number of its own.
        if node < run.machines, Int(actor.node.rawValue) != node + 1 {
            findings.note(
                "actor", "\(Telling.node(node)) started as \(actor), which is another's number")
        }
        if vector[actor] > 0 || run.archive.highest[actor] > 0 {
            findings.note(
                "actor",
                "\(Telling.node(node)) started as \(actor): expected a new actor, found one with "
                    + "\(max(vector[actor], run.archive.highest[actor])) transactions")
        }
    }

    private mutating func add(
        _ transaction: EncodedTransaction, _ node: Int, _ run: RunContext
    ) {
        if transaction.dot.sequence == 0 {
            findings.note("sequence", "\(Telling.node(node)) \(transaction.dot): sequence 0")
        }
        if !run.archive.add(transaction) {
            findings.note(
                "content",
                "\(Telling.node(node)) \(transaction.dot): expected the content that was first "
                    + "seen, found another (author \(transaction.transaction.author ?? "nil"))")
        }
    }

    private mutating func settle(_ final: [Int: Reading], _ archive: TransactionArchive) {
        // A tail may be missing, where a power loss took it; what is before the last may not.
        for entry in archive.highest.entries where archive.vector[entry.actor] < entry.sequence {
            findings.note(
                "gap",
                "actor \(entry.actor): expected all sequences up to \(entry.sequence), which was "
                    + "committed, found none after \(archive.vector[entry.actor])")
        }
        for node in final.keys.sorted() {
            guard let vector = final[node]?.token.versionVector else { continue }
            if archive.highest.covers(vector) { continue }
            findings.note(
                "unheard",
                "\(Telling.node(node)) settled with \(Telling.surplus(vector, over: archive.highest)), "
                    + "which nobody was seen to commit")
        }
    }
}
