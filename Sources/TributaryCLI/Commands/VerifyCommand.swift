import ArgumentParser
import Console
import Coordinator

/// `tributary verify`.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Compute the digest from the rows, and compare it.",
        discussion: """
            Ends with 5 where a store does not hold what was written, and with 1 where it does, \
            but another node shows something else after the same saves.
            """)

    @Option(
        help: """
            Verify this node (a URL) or store's file, too, and tell which objects the two show \
            differently.
            """)
    var against: String?

    @Option(help: "A file, mode 0600, with that node's token, if it is another.")
    var againstTokenFile: String?

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let other = try against.map { try source.open(other: $0, token: againstTokenFile) }
        var verifications = [try await Verification(interface)]
        var comparison: StoreComparison?
        // Told last: what was verified is worth knowing where nothing could be compared.
        var failure: (any Error)?
        if let other {
            verifications.append(try await Verification(other))
            do {
                comparison = try await StoreComparison.compare(
                    interface, other, areSound: verifications.allSatisfy(\.isSound))
            } catch { failure = error }
        }
        await interface.close()
        await other?.close()
        try CommandFailure.found(Self.verdict(verifications, comparison) ?? failure) {
            if source.json {
                return try Terminal.print(bytes: Self.json(verifications, comparison))
            }
            for verification in verifications {
                for line in verification.lines(isNamed: other != nil, .output) {
                    try Terminal.print(line)
                }
            }
            for line in comparison.map({ Self.lines($0, .output) }) ?? [] {
                try Terminal.print(line)
            }
        }
    }

    /// Why stores that were verified are not as they should be; nil where they are.
    private static func verdict(
        _ verifications: [Verification], _ comparison: StoreComparison?
    ) -> CommandFailure? {
        if let damaged = verifications.first(where: { !$0.isSound }) {
            return CommandFailure(
                .storeDamaged,
                "\(damaged.name) does not hold what was written. Restore a backup, or take the store "
                    + "again from the other nodes with `tributary rebuild`.")
        }
        if let comparison, !comparison.isSame {
            return CommandFailure(
                .failed, "Both are sound, and show different things after the same saves.")
        }
        if let different = verifications.first(where: { !$0.isOK }) {
            return CommandFailure(
                .failed,
                "\(different.name) is sound, and another node shows something else after the same "
                    + "saves. See which objects with --against URL.")
        }
        return nil
    }

    /// The very answer of one store; of two the first one's, with the other's as `against`.
    private static func json(
        _ verifications: [Verification], _ comparison: StoreComparison?
    ) -> [UInt8] {
        guard verifications.count == 2 else { return verifications[0].answer.bytes }
        var object = verifications[0].report
        var other = verifications[1].report
        other["name"] = .string(verifications[1].name)
        other["same"] = comparison.map { .boolean($0.isSame) } ?? .null
        other["objects"] = .integer(Int64(comparison?.count ?? 0))
        other["shown"] = .array(comparison?.differences.map(\.json) ?? [])
        object["against"] = .object(other)
        return JSONWriter.bytes(of: .object(object))
    }

    private static func lines(_ comparison: StoreComparison, _ terminal: Terminal) -> [String] {
        if comparison.isSame { return ["Both have seen the same saves, and show the same."] }
        if comparison.count == 0 {
            return [
                "All objects are the same; what differs is out of sight: versions that wait for a "
                    + "decision, or objects that another of their key stands for."
            ]
        }
        var table = Table(["OBJECT", "PROPERTY", "HERE", "THERE"])
        for difference in comparison.differences {
            table.add([
                Table.Cell(JSONRendering.shortURI(difference.id)),
                Table.Cell(difference.property ?? ""), Table.Cell(difference.here),
                Table.Cell(difference.there),
            ])
        }
        let more = comparison.count - StoreComparison.limit
        return table.lines(terminal) + (more > 0 ? ["And \(more) more objects."] : [])
    }
}

/// The findings in one store.
private struct Verification {
    let name: String
    let answer: InterfaceAnswer
    var report: JSONObject { answer.json.object ?? JSONObject() }
    var isOK: Bool { report["ok"]?.boolean ?? false }
    /// Whether the store itself holds what was written, whatever others show.
    var isSound: Bool { isOK || report["sound"]?.boolean ?? false }

    init(_ interface: any ClientInterface) async throws {
        name = interface.name
        answer = try await interface.post("/v1/verify", .object(JSONObject()))
    }

    func lines(isNamed: Bool, _ terminal: Terminal) -> [String] {
        let title = isNamed ? "\(name): " : ""
        let digest = JSONRendering.brief(report["digest"])
        guard isSound else {
            let found = JSONRendering.brief(report["recomputed"])
            return [title + "The digest kept is \(digest), that of the rows \(found)."]
                + (report["differences"]?.array ?? []).map {
                    "  " + DisplayText.line(JSONRendering.brief($0))
                }
        }
        let peers = (report["peers"]?.object?.members ?? []).map { peer in
            "Node \(peer.key) \(Self.comparison(peer.value))."
        }
        let derived = report["derivedDifferences"]?.array ?? []
        let others =
            derived.isEmpty
            ? []
            : ["Derived attributes hold something else than they follow from:"]
                + derived.map { "  " + DisplayText.line(JSONRendering.brief($0)) }
        return [title + terminal.style.paint("Sound.", .green) + " The digest is \(digest)."]
            + others + peers
    }

    private static func comparison(_ peer: JSONValue) -> String {
        switch peer.object?["agrees"]?.boolean {
        case true: "shows the same"
        case false:
            "shows something else at the same vector: its digest is "
                + JSONRendering.brief(peer.object?["digest"])
        case nil: "is at another vector, or was not heard yet: not compared"
        }
    }
}
