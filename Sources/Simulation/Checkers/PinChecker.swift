internal import Coordinator
internal import Merge

/// Law 5: a pinned generation never changes, is given up only when it is too old or its log too long,
/// and once given up it is never answered from. The past, read at a vector, shows what was read then.
struct PinChecker: Checker {
    let law = 5

    private struct Pin {
        let node: Int
        let reading: Reading
    }

    private var pins: [Int: Pin] = [:]
    private var ended: [Int: String] = [:]
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .pinned(let node, let number, let reading):
            pins[number] = Pin(node: node, reading: reading)
            ended[number] = nil
        case .pinRead(let node, let number, let reading):
            check(reading, node, number, run.model)
        case .pastRead(let node, let then, let reading): checkPast(reading, then, node, run.model)
        case .pinExpired(let node, let number, let isDue):
            if !isDue {
                findings.note(
                    "early",
                    "\(Telling.node(node)) pin \(number): expected it kept, being neither old "
                        + "nor is the log long, found it given up")
            }
            end(number, "it was given up")
        case .ended(let node, _):
            for number in pins.keys.sorted() where pins[number]?.node == node {
                end(number, "its process ended")
            }
        default: break
        }
        return findings.take()
    }

    private mutating func end(_ number: Int, _ reason: String) {
        pins[number] = nil
        ended[number] = reason
    }

    private mutating func check(
        _ reading: Reading, _ node: Int, _ number: Int, _ model: ManagedObjectModel
    ) {
        let place = "\(Telling.node(node)) pin \(number)"
        if let reason = ended[number] {
            findings.note("expired", "\(place) answered after \(reason)")
            return
        }
        guard let pin = pins[number] else {
            findings.note("unknown", "\(place) answered and was never taken")
            return
        }
        let first = pin.reading
        if reading == first { return }
        if first.token != reading.token || first.digest != reading.digest {
            findings.note(
                "generation",
                "\(place): expected generation \(first.token.generation) with digest "
                    + "\(first.digest), found \(reading.token.generation) with \(reading.digest)")
            return
        }
        compareShown(first, reading, place, model)
        compareRest(first, reading, place)
    }

    /// What readers see; journal and generations are the store's own.
    private mutating func checkPast(
        _ reading: Reading, _ first: Reading, _ node: Int, _ model: ManagedObjectModel
    ) {
        let place = "\(Telling.node(node)) past at \(first.token.versionVector)"
        if first.digest != reading.digest
            || first.token.versionVector != reading.token.versionVector
        {
            findings.note(
                "past",
                "\(place): expected digest \(first.digest) at \(first.token.versionVector), found "
                    + "\(reading.digest) at \(reading.token.versionVector)")
        }
        compareShown(first, reading, place, model)
    }

    private mutating func compareShown(
        _ first: Reading, _ reading: Reading, _ place: String, _ model: ManagedObjectModel
    ) {
        // What was not read this time, or not the first time, cannot differ.
        for entity in reading.entities {
            guard let before = first.entities.first(where: { $0.entity == entity.entity })
            else { continue }
            compare(before.rows, entity.rows, place, model)
        }
        for members in reading.members {
            let before = first.members.first {
                $0.object == members.object && $0.relationship == members.relationship
            }
            if let before, before != members {
                findings.note(
                    "members",
                    "\(place) \(members.object).\(members.relationship): expected "
                        + "\(before.members), found \(members.members)")
            }
        }
    }

    private mutating func compare(
        _ expected: [RowSnapshot], _ found: [RowSnapshot], _ place: String,
        _ model: ManagedObjectModel
    ) {
        if expected == found { return }
        var known = Dictionary(expected.map { ($0.objectID, $0) }) { first, _ in first }
        for row in found {
            guard let before = known.removeValue(forKey: row.objectID) else {
                findings.note("rows", "\(place): \(row.objectID) expected gone, found")
                continue
            }
            if let difference = Telling.difference(before, row, model) {
                findings.note("rows", "\(place): \(difference)")
            }
        }
        for id in known.keys.sorted() {
            findings.note("rows", "\(place): \(id) expected, found gone")
        }
    }

    private mutating func compareRest(_ first: Reading, _ reading: Reading, _ place: String) {
        if let before = first.conflicts, let now = reading.conflicts, before != now {
            let ids = Set(before).symmetricDifference(now).map(\.id.description).sorted()
            findings.note(
                "conflicts",
                "\(place): the journal changed: expected \(before.count) entries, found "
                    + "\(now.count), first at \(ids.first ?? "their order")")
        }
        if let before = first.uncollected, let now = reading.uncollected, before != now {
            findings.note(
                "uncollected", "\(place) uncollected: expected \(before), found \(now)")
        }
        guard first.isWhole, reading.isWhole else { return }
        if first.entities.map(\.entity) != reading.entities.map(\.entity)
            || first.members.map(\.object) != reading.members.map(\.object)
        {
            findings.note("parts", "\(place) was read whole twice, and lists other parts")
        }
    }
}
