internal import Coordinator
internal import Merge

/// Law 4: every node commits in causal order, its generations and vectors only grow, and stamps
/// agree with what their writers had seen.
///
/// That a transaction shows wholly or not at all is law 3's: every reading is compared with the
/// oracle at the reading's own vector.
struct CausalityChecker: Checker {
    let law = 4

    /// A process's life, as far as observations show.
    private struct Life {
        let actor: ActorID
        var vector: VersionVector
        var generation: UInt64?
        /// The latest stamp among all that the store holds.
        var latest: HybridTimestamp
        /// The saves acknowledged to its clients: every later reading must have them.
        var told = VersionVector()
        /// The latest state that was read.
        var read = VersionVector()
        var readGeneration: UInt64 = 0
    }

    private var lives: [Int: Life] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .started(let node, let actor, let vector, _):
            lives[node] = Life(
                actor: actor, vector: vector, latest: Self.latest(in: vector, run.archive))
        case .found(let node, let transactions):
            for transaction in transactions {
                let timestamp = transaction.transaction.timestamp
                let latest = lives[node]?.latest ?? .zero
                lives[node]?.latest = max(latest, timestamp)
            }
        case .committed(let node, let notice): commit(notice, node, run)
        case .acknowledged(let node, _, let result):
            // A life that ended meanwhile has no clients left to read.
            guard let dot = result.transaction else { break }
            lives[node]?.told.advance(to: dot)
        case .read(let node, let reading): read(reading, node)
        case .ended(let node, _): lives[node] = nil
        default: break
        }
        return findings.take()
    }

    private static func latest(
        in vector: VersionVector, _ archive: TransactionArchive
    ) -> HybridTimestamp {
        var latest = HybridTimestamp.zero
        for transaction in archive.transactions where vector.contains(transaction.dot) {
            latest = max(latest, transaction.timestamp)
        }
        return latest
    }

    // MARK: Commits

    private mutating func commit(_ notice: CommitNotice, _ node: Int, _ run: RunContext) {
        guard var life = lives[node] else {
            findings.note(
                "life",
                "\(Telling.node(node)) committed generation \(notice.token.generation) and does "
                    + "not live")
            return
        }
        let place = "\(Telling.node(node)) generation \(notice.token.generation)"
        if let last = life.generation, notice.token.generation <= last {
            findings.note("generation", "\(place): expected one after \(last)")
        }
        life.generation = notice.token.generation
        for transaction in notice.transactions {
            apply(transaction.transaction, isLocal: notice.isLocal, &life, place, run)
        }
        let found = notice.token.versionVector
        if found != life.vector {
            findings.note(
                "vector",
                "\(place): expected the vector before and its transactions, found without "
                    + "\(Telling.surplus(life.vector, over: found)) and with "
                    + "\(Telling.surplus(found, over: life.vector)) besides")
        }
        life.vector = found
        lives[node] = life
    }

    private mutating func apply(
        _ transaction: Transaction, isLocal: Bool, _ life: inout Life, _ place: String,
        _ run: RunContext
    ) {
        let dot = transaction.dot
        let before = life.vector
        if dot.sequence != before[dot.actor] + 1 {
            findings.note(
                "predecessor",
                "\(place) \(dot): expected sequence \(before[dot.actor] + 1) of its actor")
        }
        if !before.covers(transaction.seen) {
            findings.note(
                "seen",
                "\(place) \(dot): expected after all that it has seen, found before "
                    + Telling.surplus(transaction.seen, over: before))
        }
        if transaction.seen[dot.actor] != dot.sequence - 1 {
            findings.note(
                "own",
                "\(place) \(dot): expected that it has seen \(dot.sequence - 1) of its own actor, "
                    + "found \(transaction.seen[dot.actor])")
        }
        // Its bytes tell only a part, which each store completes by itself.
        if let known = run.archive.written(dot)?.seen, known != transaction.seen {
            findings.note(
                "seen",
                "\(place) \(dot): expected that it has seen what it had when first heard, "
                    + "found without \(Telling.surplus(known, over: transaction.seen)) and with "
                    + "\(Telling.surplus(transaction.seen, over: known)) besides")
        }
        if isLocal {
            if transaction.seen != before {
                findings.note(
                    "seen",
                    "\(place) \(dot): expected that it has seen all that the store held, found "
                        + "that it lacks \(Telling.surplus(before, over: transaction.seen))")
            }
            if transaction.timestamp <= life.latest {
                findings.note(
                    "stamp",
                    "\(place) \(dot): expected a stamp after \(life.latest), which the store "
                        + "held, found \(transaction.timestamp)")
            }
        }
        if isLocal != (dot.actor == life.actor) {
            findings.note(
                "actor",
                "\(place) \(dot): expected \(isLocal ? "the actor" : "another actor than") "
                    + "\(life.actor)")
        }
        let previous = Dot(actor: dot.actor, sequence: dot.sequence - 1)
        if let earlier = run.archive.transaction(previous),
            earlier.timestamp >= transaction.timestamp
        {
            findings.note(
                "stamp",
                "\(place) \(dot): expected a stamp after \(earlier.timestamp) of its predecessor, "
                    + "found \(transaction.timestamp)")
        }
        life.latest = max(life.latest, transaction.timestamp)
        life.vector.advance(to: dot)
    }

    // MARK: Readings

    private mutating func read(_ reading: Reading, _ node: Int) {
        guard var life = lives[node] else { return }
        let token = reading.token
        let place = "\(Telling.node(node)) reading of generation \(token.generation)"
        if !token.versionVector.covers(life.told) {
            findings.note(
                "told",
                "\(place): expected what was acknowledged before, found it without "
                    + Telling.surplus(life.told, over: token.versionVector))
        }
        if token.generation < life.readGeneration || !token.versionVector.covers(life.read) {
            findings.note(
                "read",
                "\(place): expected no less than an earlier reading of generation "
                    + "\(life.readGeneration), found it without "
                    + Telling.surplus(life.read, over: token.versionVector))
        }
        if token.generation == life.generation, token.versionVector != life.vector {
            findings.note(
                "read",
                "\(place): expected the vector that its commit told, found another by "
                    + Telling.surplus(token.versionVector, over: life.vector))
        }
        life.readGeneration = max(life.readGeneration, token.generation)
        life.read.join(token.versionVector)
        lives[node] = life
    }
}
