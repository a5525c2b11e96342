import ArgumentParser
import Coordinator

/// `tributary verify`.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Compute the digest anew from the rows, and compare it.",
        discussion: "Ends with 5 where they differ: the store is damaged.")

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.post("/v1/verify", .object(JSONObject()))
        let isFine = answer.json.object?["ok"]?.boolean ?? false
        interface.show(answer, asJSON: source.json) { answer, terminal in
            let digest = JSONRendering.brief(answer["digest"])
            if isFine {
                var lines = ["\(terminal.style.paint("Sound.", .green)) The digest is \(digest)."]
                for peer in answer["peers"]?.object?.members ?? [] {
                    lines.append("peer \(peer.key)\t\(JSONRendering.brief(peer.value))")
                }
                return lines
            }
            let found = JSONRendering.brief(answer["recomputed"])
            return ["The digest kept is \(digest), that of the rows \(found)."]
                + (answer["differences"]?.array ?? []).map {
                    "  " + DisplayText.line(JSONRendering.brief($0))
                }
        }
        await interface.close()
        guard isFine else {
            throw CommandFailure(
                .storeDamaged,
                "\(interface.name) does not hold what was written. Restore a backup, or begin "
                    + "anew from another node.")
        }
    }
}
