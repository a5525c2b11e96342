import ArgumentParser
import Console
import Coordinator

/// `tributary delete`.
struct DeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete objects of an entity, by a predicate or by their URIs.",
        discussion: """
            The node does it with 10,000 objects at a time, and other saves go on between. Delete \
            rules are carried out; an object that one denies ends it. On a terminal it asks first.
            """)

    @Argument(help: "The entity, such as Person; not with --object.")
    var entity: String?

    @Option(name: .customLong("where"), help: "A predicate, such as \"age > 30 AND name != nil\".")
    var predicate: String?

    @Option(help: "NAME=VALUE for $NAME in the predicate; VALUE as JSON, or else as text.")
    var substitution: [String] = []

    @Flag(help: "All objects of the entity, without a predicate.")
    var all = false

    @Option(
        help: "A key path to sort by, for --limit; descending with --sort=-KEY. May be repeated.")
    var sort: [String] = []

    @Option(help: "At most so many objects.")
    var limit: Int?

    @Option(help: "Leave out so many of the first.")
    var offset: Int?

    @Option(
        help: "An object: Contact/p123, as `tributary fetch` shows it, or its URI. May be repeated."
    )
    var object: [String] = []

    @OptionGroup var flags: BatchFlags

    func validate() throws {
        if object.isEmpty {
            if entity == nil { throw ValidationError("Give an entity, or --object URI.") }
            if (predicate == nil) != all {
                throw ValidationError("Give either --where PREDICATE or --all.")
            }
        } else if entity != nil || predicate != nil || all || limit != nil || offset != nil
            || !sort.isEmpty
        {
            throw ValidationError("--object stands alone.")
        }
        if let limit, limit < 1 { throw ValidationError("--limit is at least 1.") }
        if let offset, offset < 0 { throw ValidationError("--offset is at least 0.") }
    }

    func run() async throws {
        var request = JSONObject()
        if let entity {
            request = try FetchOptions.body(entity, predicate, substitution)
            if !sort.isEmpty { request["sort"] = .array(sort.map { .string($0) }) }
            if let limit { request["limit"] = .integer(Int64(limit)) }
            if let offset { request["offset"] = .integer(Int64(offset)) }
        } else {
            request["objects"] = .array(object.map { .string($0) })
        }
        try await BatchExchange(flags: flags, verb: "Delete", past: "Deleted")
            .run("delete", request)
    }
}
