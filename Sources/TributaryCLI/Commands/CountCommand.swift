import ArgumentParser
import Coordinator

/// `tributary count`.
struct CountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "count", abstract: "Count objects of an entity.")

    @OptionGroup var fetch: FetchOptions
    @OptionGroup var source: SourceOptions

    func run() async throws {
        var body = try fetch.body()
        body["resultType"] = .string("count")
        let interface = try source.open()
        let answer = try await interface.post("/v1/fetch", .object(body))
        try interface.show(answer, asJSON: source.json) { answer, _ in
            [JSONRendering.brief(answer["count"])]
        }
        await interface.close()
    }
}
