internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 2: no acknowledged save is lost.
///
/// Once settled, every acknowledged transaction is everywhere, unless every disk that ever held it
/// was lost or put back; then it is nowhere. Everywhere means at every member: what a node that
/// departed has acknowledged, and what no member's store holds, is excused where the node's own
/// store still has it, or was lost itself (DESIGN section 8, retirement). A machine that only went down comes back with all
/// that it has acknowledged and with all that it has called durable. A save that was refused is
/// never seen, a save with an ID is done once, and every write that is not visible is accounted
/// for (DESIGN 5.7). A node that confirmed to a client to have a save on disk has it, or had.
struct AcknowledgementChecker: Checker {
    let law = 2

    /// One machine's disk since it was last lost or put back.
    private struct Disk {
        /// The store's vector when last heard of.
        var held = VersionVector()
        /// The vector that must survive everything but the loss of the disk.
        var owed = VersionVector()
        /// The saves by their IDs, which a store does once.
        var saves: [String: Dot] = [:]
        /// Those that it has forgotten since, and would do again.
        var forgotten: Set<String> = []
        /// How often the disk was lost or put back.
        var losses = 0
    }

    private struct Acknowledgement {
        let dot: Dot
        let node: Int
        /// The disk's losses by then.
        let losses: Int
    }

    private var disks: [Int: Disk] = [:]
    /// The node that runs on each machine: a copy of a machine runs the same.
    private var nodes: [Int: NodeID] = [:]
    /// All that was ever on a disk of a node.
    private var everOnDisk: [NodeID: VersionVector] = [:]
    private var acknowledgements: [Acknowledgement] = []
    private var acknowledged = Set<Dot>()
    /// The nodes that refused a save, by the mark that its transaction would carry.
    private var refused: [SaveMark: Int] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .started(let node, let actor, let vector, _):
            nodes[node] = actor.node
            start(node, vector)
        case .found(let node, let transactions):
            for transaction in transactions { note(transaction.transaction, node) }
        case .committed(let node, let notice):
            disks[node, default: Disk()].held.join(notice.token.versionVector)
            for transaction in notice.transactions {
                notice.isLocal
                    ? note(transaction.transaction, node)
                    : noteReturn(transaction.transaction, node)
            }
        case .acknowledged(let node, let save, let result):
            refused[SaveMark(save)] = nil
            guard let dot = result.transaction else { break }
            compareAuthor(save, dot, node, run)
            acknowledge(dot, node)
        case .performed(let node, let dots): for dot in dots { acknowledge(dot, node) }
        case .confirmed(let node, let dot, let peer):
            guard everOnDisk[peer]?.contains(dot) != true else { break }
            findings.note(
                "confirmed",
                "\(Telling.node(node)) told that node \(peer) has \(dot) on disk: expected it "
                    + "there, found that it never was")
        case .refused(let node, let save, _):
            let mark = SaveMark(save)
            if mark.isUnique, !hasForgotten(save, node) { refused[mark] = node }
        case .unknown(_, let save, _): refused[SaveMark(save)] = nil
        // Saves are remembered for as long as their transactions are in history.
        case .purged(let node, let vector):
            let purged = disks[node]?.saves.filter { vector.contains($0.value) } ?? [:]
            for saveID in purged.keys {
                disks[node]?.saves[saveID] = nil
                disks[node]?.forgotten.insert(saveID)
            }
        case .durable(let node, let vector):
            disks[node, default: Disk()].owed.join(vector)
            if let own = nodes[node] { everOnDisk[own, default: VersionVector()].join(vector) }
        case .ended(let node, let how): end(node, how)
        case .settled(let final, _): settle(final, run)
        default: break
        }
        return findings.take()
    }

    // MARK: Lives

    private mutating func start(_ node: Int, _ vector: VersionVector) {
        var disk = disks[node] ?? Disk()
        if !vector.covers(disk.owed) {
            findings.note(
                "restart",
                "\(Telling.node(node)) store after restart: expected all that it had acknowledged "
                    + "or called durable, found it without "
                    + Telling.surplus(disk.owed, over: vector))
        }
        disk.held = vector
        disk.owed = disk.owed.meet(vector)
        disk.saves = disk.saves.filter { vector.contains($0.value) }
        disks[node] = disk
    }

    private mutating func end(_ node: Int, _ how: Ending) {
        switch how {
        case .wiped, .restored, .copyRemoved:
            disks[node] = Disk(losses: (disks[node]?.losses ?? 0) + 1)
        case .closed, .killed, .powerLost, .stopped: break
        }
    }

    // MARK: Saves

    private mutating func acknowledge(_ dot: Dot, _ node: Int) {
        var disk = disks[node] ?? Disk()
        // One of another actor is the first outcome of a save that was repeated.
        disk.owed.advance(to: dot)
        disk.held.advance(to: dot)
        disks[node] = disk
        guard acknowledged.insert(dot).inserted else { return }
        acknowledgements.append(Acknowledgement(dot: dot, node: node, losses: disk.losses))
    }

    /// A client hears of its own save, not of another of its group.
    private mutating func compareAuthor(
        _ save: SaveRequest, _ dot: Dot, _ node: Int, _ run: RunContext
    ) {
        guard save.saveID == nil, let author = save.author,
            let transaction = run.archive.transaction(dot), transaction.author != author
        else { return }
        findings.note(
            "answer",
            "\(Telling.node(node)) answered the save of \(author) with \(dot): expected its own "
                + "transaction, found that of \(transaction.author ?? "nobody")")
    }

    /// A save with an ID is done at most once by a store that still knows it.
    private mutating func note(_ transaction: Transaction, _ node: Int) {
        guard let saveID = transaction.saveID else { return }
        let known = disks[node, default: Disk()].saves.updateValue(transaction.dot, forKey: saveID)
        if let known, known != transaction.dot {
            findings.note(
                "repeated",
                "\(Telling.node(node)) save \(saveID): expected the transaction \(known) alone, "
                    + "found it done again as \(transaction.dot)")
        }
    }

    /// Nor is one done again whose transaction has come back to the node that lost it.
    private mutating func noteReturn(_ transaction: Transaction, _ node: Int) {
        guard let saveID = transaction.saveID, transaction.dot.actor.node == nodes[node],
            disks[node]?.saves[saveID] == nil
        else { return }
        disks[node, default: Disk()].saves[saveID] = transaction.dot
    }

    /// Whether a store did a save and cannot tell any more: refused when it is repeated, it is no less
    /// done.
    private func hasForgotten(_ save: SaveRequest, _ node: Int) -> Bool {
        guard let saveID = save.saveID, let disk = disks[node] else { return false }
        return disk.saves[saveID] == nil && disk.forgotten.contains(saveID)
    }

    // MARK: Settling

    private mutating func settle(_ final: [Int: Reading], _ run: RunContext) {
        for transaction in run.archive.transactions {
            guard let node = refused[SaveMark(transaction)]
            else { continue }
            findings.note(
                "refused",
                "\(Telling.node(node)) refused the save of \(transaction.author ?? "nobody"), "
                    + "expected nothing of it, found \(transaction.dot)")
        }
        guard !final.isEmpty else { return }
        let nodes = final.keys.sorted()
        for acknowledgement in acknowledgements { check(acknowledgement, nodes, final, run) }
        for node in nodes {
            guard let reading = final[node], let journal = reading.conflicts, reading.isWhole,
                run.archive.covers(reading.token.versionVector)
            else { continue }
            let oracle = run.archive.oracle(at: reading.token.versionVector)
            let past = journal + reading.pastConflicts
            let listed = past.flatMap(run.archive.inAllNames)
            for line in oracle.unexplained(journal: listed) {
                findings.note(
                    "unexplained",
                    "\(Telling.node(node)) lost a write silently: expected it visible, "
                        + "overwritten or journalled, found none of these: \(line)")
            }
        }
    }

    private mutating func check(
        _ acknowledgement: Acknowledgement, _ nodes: [Int], _ final: [Int: Reading],
        _ run: RunContext
    ) {
        let dot = acknowledgement.dot
        let without = nodes.filter { final[$0]?.token.versionVector.contains(dot) == false }
        if run.archive.transaction(dot) == nil {
            findings.note(
                "acknowledged",
                "\(Telling.node(acknowledgement.node)) acknowledged \(dot), which nobody was seen "
                    + "to commit")
        }
        guard let first = without.first else { return }
        if without.count < nodes.count {
            findings.note(
                "acknowledged",
                "\(Telling.node(acknowledgement.node)) acknowledged \(dot): expected everywhere, "
                    + "found it missing on \(Telling.node(first)) and not on all")
            return
        }
        // Nowhere: then every member's disk that held it must be one that was lost since.
        let holder = nodes.first { disks[$0]?.held.contains(dot) == true }
        let isDeparted = final[acknowledgement.node] == nil
        let isTraced = disks[acknowledgement.node]?.held.contains(dot) == true
        if let holder {
            findings.note(
                "acknowledged",
                "\(Telling.node(acknowledgement.node)) acknowledged \(dot): expected everywhere, "
                    + "for \(Telling.node(holder)) still held it, found nowhere")
        } else if disks[acknowledgement.node]?.losses ?? 0 == acknowledgement.losses,
            !(isDeparted && isTraced)
        {
            findings.note(
                "acknowledged",
                "\(Telling.node(acknowledgement.node)) acknowledged \(dot) and never lost its "
                    + "disk: expected everywhere, found nowhere")
        }
    }
}

/// By what a save is known again in its transaction.
private struct SaveMark: Hashable {
    private let text: String
    /// Whether no two saves that are not one and the same have it.
    let isUnique: Bool

    /// A save with an ID is known by it, any other by an author that the world made up.
    init(_ save: SaveRequest) { self.init(author: save.author, saveID: save.saveID) }

    init(_ transaction: Transaction) {
        self.init(author: transaction.author, saveID: transaction.saveID)
    }

    private init(author: String?, saveID: String?) {
        if let saveID {
            text = "saveID \(saveID)"
            isUnique = true
        } else {
            text = "author \(author ?? "")"
            isUnique = author.map(Self.isMadeUp) ?? false
        }
    }

    /// Whether an author is `nMACHINE.NUMBER`.
    private static func isMadeUp(_ author: String) -> Bool {
        guard author.first == "n" else { return false }
        let parts = author.dropFirst().split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 2
            && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { (48...57).contains($0) } }
    }
}
