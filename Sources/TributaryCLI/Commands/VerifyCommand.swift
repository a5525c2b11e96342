import ArgumentParser
import Coordinator

/// `tributary verify`.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Compute the digest anew from the rows, and compare it.",
        discussion: """
            Ends with 5 where the store does not hold what was written, and with 1 where it does, \
            but another node shows something else after the same saves.
            """)

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.post("/v1/verify", .object(JSONObject()))
        let report = answer.json.object ?? JSONObject()
        interface.show(answer, asJSON: source.json) { answer, terminal in
            Self.lines(answer, terminal)
        }
        await interface.close()
        if Self.isTrue(report["ok"]) { return }
        guard Self.isTrue(report["sound"]) else {
            throw CommandFailure(
                .storeDamaged,
                "\(interface.name) does not hold what was written. Restore a backup, or begin "
                    + "anew from another node.")
        }
        throw CommandFailure(
            .failed,
            "\(interface.name) is sound, and another node shows something else after the same "
                + "saves. Verify that one, too.")
    }

    private static func lines(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        let digest = JSONRendering.brief(answer["digest"])
        guard isTrue(answer["sound"]) || isTrue(answer["ok"]) else {
            let found = JSONRendering.brief(answer["recomputed"])
            return ["The digest kept is \(digest), that of the rows \(found)."]
                + (answer["differences"]?.array ?? []).map {
                    "  " + DisplayText.line(JSONRendering.brief($0))
                }
        }
        let peers = (answer["peers"]?.object?.members ?? []).map { peer in
            "Node \(peer.key) \(comparison(peer.value))."
        }
        return ["\(terminal.style.paint("Sound.", .green)) The digest is \(digest)."] + peers
    }

    private static func isTrue(_ value: JSONValue?) -> Bool { value?.boolean ?? false }

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
