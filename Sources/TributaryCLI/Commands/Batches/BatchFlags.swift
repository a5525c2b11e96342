import ArgumentParser
import Console
import Coordinator
import Foundation

/// The flags that commands of batch requests share.
struct BatchFlags: ParsableArguments {
    @Flag(help: "Only tell how many objects there are to do it with.")
    var dryRun = false

    @Flag(name: .shortAndLong, help: "Do not ask before it is done.")
    var yes = false

    @Flag(help: "All or nothing, as one transaction. Other saves wait while it is written.")
    var atomic = false

    @Flag(help: "Decide over unresolved conflicts of what is written.")
    var resolves = false

    @Option(help: "A name to repeat it by: it then goes on where it stopped. By default a new one.")
    var saveID: String?

    @Option(help: "Who is named as its author in history.")
    var author: String?

    @OptionGroup var node: NodeOptions
}

/// Carries a batch request out for a command.
struct BatchExchange {
    let flags: BatchFlags
    /// What is done, for a question: "Delete".
    let verb: String
    /// What was done: "Deleted".
    let past: String

    /// - Parameter request: the body's member, such as "delete", with what it says.
    func run(_ kind: String, _ request: JSONObject) async throws {
        var body: JSONObject = [kind: .object(request), "dryRun": .boolean(true)]
        let interface = try flags.node.open()
        let isAsked = !flags.yes && isatty(STDIN_FILENO) == 1 && Terminal.error.isInteractive
        var expected: Int?
        if flags.dryRun || isAsked {
            let answer = try await interface.post("/v1/batch", .object(body))
            if flags.dryRun {
                try interface.show(answer, asJSON: flags.node.json) { answer, _ in
                    ["Would \(verb.lowercased()) \(objects(answer))."]
                }
                return await interface.close()
            }
            expected = answer.json.object?["count"]?.integer.map(Int.init)
            Terminal.complain("\(verb) \(objects(answer.json.object ?? JSONObject()))? [y/N] ")
            guard ["y", "yes"].contains(readLine()?.lowercased()) else {
                throw CommandFailure(.failed, "Nothing was done.")
            }
        }
        body["dryRun"] = nil
        let saveID = flags.saveID ?? "batch-\(UUID().uuidString)"
        body["saveID"] = .string(saveID)
        if flags.atomic { body["atomic"] = .boolean(true) }
        if flags.resolves { body["resolves"] = .boolean(true) }
        if let author = flags.author { body["author"] = .string(author) }
        let outcome = try await outcome(of: .object(body), saveID, expected, interface)
        await interface.close()
        if flags.node.json {
            return try Terminal.print(bytes: JSONWriter.bytes(of: .object(outcome)))
        }
        let transactions = outcome["transactions"]?.integer ?? 0
        try Terminal.print(
            "\(past) \(objects(outcome))"
                + (transactions > 1 ? ", in \(transactions) transactions." : "."))
    }

    /// Follows the request to its end.
    ///
    /// - Throws: ``CommandFailure``, which says how to go on where a part was done.
    private func outcome(
        of body: JSONValue, _ saveID: String, _ expected: Int?, _ interface: NodeInterface
    ) async throws -> JSONObject {
        var progress = ProgressLine(isQuiet: flags.node.json)
        var last = JSONObject()
        let again = "Repeat it with --save-id \(saveID) to go on."
        do {
            try await interface.batchLines(body) { line in
                last = line
                guard let count = line["count"]?.integer else { return }
                progress.update(
                    records: Int(count),
                    fraction: expected.map { Double(count) / Double(max(1, $0)) })
            }
        } catch {
            progress.end()
            let failure = CommandFailure(describing: error)
            guard failure.mayHaveHappened || last["count"] != nil else { throw failure }
            throw CommandFailure(
                .outcomeUnknown, "The node's answer was lost: \(failure.message) \(again)")
        }
        progress.end()
        if last["end"]?.boolean == true {
            last["end"] = nil
            return last
        }
        guard let status = last["status"]?.integer else {
            throw CommandFailure(
                .outcomeUnknown, "\(interface.name) cut the answer off. \(again)")
        }
        let failure = CommandFailure(
            status: Int(status), body: JSONWriter.bytes(of: .object(last)))
        guard let done = last["error"]?.object?["done"]?.object else { throw failure }
        throw CommandFailure(
            failure.code,
            "\(failure.message) \(past) \(objects(done)) before that. \(again)")
    }

    private func objects(_ answer: JSONObject) -> String {
        let count = answer["count"]?.integer ?? 0
        return count == 1 ? "1 object" : "\(count) objects"
    }
}
