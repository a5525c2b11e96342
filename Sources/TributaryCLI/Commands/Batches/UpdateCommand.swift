import ArgumentParser
import Console
import Coordinator

/// `tributary update`.
struct UpdateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "update",
        abstract: "Give objects of an entity new values.",
        discussion: """
            The node does it with 10,000 objects at a time, and other saves go on between. Values \
            are not validated but for their types. On a terminal it asks first.
            """)

    @Argument(help: "The entity, such as Person.")
    var entity: String

    @Option(name: .customLong("where"), help: "A predicate, such as \"age > 30 AND name != nil\".")
    var predicate: String?

    @Option(help: "NAME=VALUE for $NAME in the predicate; VALUE as JSON, or else as text.")
    var substitution: [String] = []

    @Flag(help: "All objects of the entity, without a predicate.")
    var all = false

    @Option(
        name: .customLong("set"),
        help:
            "PROPERTY=VALUE; VALUE as JSON, such as null or '\"42\"', or else as text. May be repeated."
    )
    var values: [String] = []

    @OptionGroup var flags: BatchFlags

    func validate() throws {
        if values.isEmpty { throw ValidationError("Give --set PROPERTY=VALUE.") }
        if (predicate == nil) != all {
            throw ValidationError("Give either --where PREDICATE or --all.")
        }
    }

    func run() async throws {
        var request = try FetchOptions.body(entity, predicate, substitution)
        request["values"] = .object(try FetchOptions.pairs(values, of: "--set", "PROPERTY=VALUE"))
        try await BatchExchange(flags: flags, verb: "Update", past: "Updated")
            .run("update", request)
    }
}
