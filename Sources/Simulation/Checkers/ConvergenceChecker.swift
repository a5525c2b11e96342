internal import Coordinator
internal import Merge
internal import Replication

/// Law 1: equal vectors have equal digests, on every node of one model, in every life, at any time;
/// and when the world has settled, all show the same.
struct ConvergenceChecker: Checker {
    let law = 1

    private struct Witness {
        let digest: ProjectionDigest
        let node: Int
        let generation: UInt64
    }

    private struct State: Hashable {
        let vector: VersionVector
        let edition: Int
    }

    private var witnesses: [State: Witness] = [:]
    /// By which of the run's models the node shows what it does.
    private var edition = 0
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        edition = run.archive.edition
        switch observation {
        case .committed(let node, let notice):
            compare(notice.token, notice.digest, node)
        case .read(let node, let reading), .pinned(let node, _, let reading),
            .pinRead(let node, _, let reading):
            compare(reading.token, reading.digest, node)
        case .alarm(let node, .digestMismatch(let peer, let vector, let ours, let theirs)):
            findings.note(
                "alarm",
                "\(Telling.node(node)) shows \(ours) and its peer \(peer) shows \(theirs) at the "
                    + "vector of \(vector.entries.count) actors")
        case .settled(let final, _): settle(final, run.model)
        default: break
        }
        return findings.take()
    }

    private mutating func compare(
        _ token: QueryGenerationToken, _ digest: ProjectionDigest, _ node: Int
    ) {
        let state = State(vector: token.versionVector, edition: edition)
        guard let witness = witnesses[state] else {
            witnesses[state] = Witness(
                digest: digest, node: node, generation: token.generation)
            return
        }
        if witness.digest == digest { return }
        findings.note(
            "digest",
            "\(Telling.node(node)) generation \(token.generation): expected the digest "
                + "\(witness.digest) of \(Telling.node(witness.node)) generation "
                + "\(witness.generation), which has the same vector, found \(digest)")
    }

    private mutating func settle(_ final: [Int: Reading], _ model: ManagedObjectModel) {
        let nodes = final.keys.sorted()
        guard let first = nodes.first, let expected = final[first] else { return }
        for node in nodes {
            guard let reading = final[node] else { continue }
            compare(reading.token, reading.digest, node)
            if node == first { continue }
            let (ours, theirs) = (reading.token.versionVector, expected.token.versionVector)
            if ours != theirs {
                findings.note(
                    "settled vector",
                    "\(Telling.node(node)) settled on another vector than \(Telling.node(first)): "
                        + "it lacks \(Telling.surplus(theirs, over: ours)) and has besides "
                        + "\(Telling.surplus(ours, over: theirs))")
            }
            compareRows(reading, node, expected, first, model)
        }
    }

    private mutating func compareRows(
        _ reading: Reading, _ node: Int, _ expected: Reading, _ first: Int,
        _ model: ManagedObjectModel
    ) {
        if reading.entities == expected.entities, reading.members == expected.members { return }
        let place = "\(Telling.node(node)) against \(Telling.node(first))"
        var known: [ManagedObjectID: RowSnapshot] = [:]
        for entity in expected.entities {
            for row in entity.rows { known[row.objectID] = row }
        }
        var isRowDifferent = false
        for row in reading.entities.flatMap(\.rows) {
            guard let other = known.removeValue(forKey: row.objectID) else {
                isRowDifferent = true
                findings.note("rows", "\(place): \(row.objectID) expected gone, found")
                continue
            }
            if let difference = Telling.difference(other, row, model) {
                isRowDifferent = true
                findings.note("rows", "\(place): \(difference)")
            }
        }
        for id in known.keys.sorted() {
            isRowDifferent = true
            findings.note("rows", "\(place): \(id) expected, found gone")
        }
        for (theirs, ours) in zip(expected.members, reading.members) where theirs != ours {
            isRowDifferent = true
            findings.note(
                "members",
                "\(place): \(ours.object).\(ours.relationship): expected "
                    + "\(theirs.object).\(theirs.relationship) \(theirs.members), "
                    + "found \(ours.members)")
        }
        if !isRowDifferent {
            findings.note("rows", "\(place): the readings list other entities or relationships")
        }
    }
}
