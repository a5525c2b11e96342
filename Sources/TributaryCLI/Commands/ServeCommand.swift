import ArgumentParser
import Console
import Foundation
import Node

/// `tributary serve`.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a node in the foreground until SIGTERM or SIGINT.",
        discussion: """
            Prints one line with its HTTP address when it is ready. SIGHUP, or `tributary keys \
            reload`, reads keys, tokens and certificates again. Flags override the \
            environment (TRIBUTARY_HTTP_LISTEN and so on), which overrides the file.
            """)

    @Option(help: "The configuration, YAML.", completion: .file())
    var config: String

    @Option(help: "The cluster's name.")
    var cluster: String?

    @Option(help: "This node's number.")
    var nodeNumber: String?

    @Option(help: "The store's file.", completion: .file())
    var store: String?

    @Option(help: "The model's file.", completion: .file())
    var model: String?

    @Option(help: "Where HTTP listens, such as 127.0.0.1:7100; port 0 takes a free one.")
    var listen: String?

    @Option(help: "Where this node publishes, such as tcp://127.0.0.1:7101.")
    var publish: String?

    @Option(help: "Where this node takes questions, such as tcp://127.0.0.1:7102.")
    var exchange: String?

    @Flag(help: "Allow addresses off loopback without keys, and without TLS.")
    var insecure = false

    @Flag(help: "Say whether the configuration is right and fits the store, and end.")
    var check = false

    func run() async throws {
        // Until the node can reload: a supervisor that asks for it too early must not end it.
        signal(SIGHUP, SIG_IGN)
        NewFiles.keepToOwner()
        var overrides = NodeConfiguration.Overrides()
        overrides.cluster = cluster
        overrides.node = nodeNumber
        overrides.store = store
        overrides.model = model
        overrides.listen = listen
        overrides.publish = publish
        overrides.exchange = exchange
        if insecure { overrides.insecure = true }
        let (file, given) = (config, overrides)
        let read: @Sendable () throws -> NodeConfiguration = {
            try NodeConfiguration.read(
                file: file, environment: ProcessInfo.processInfo.environment, overrides: given)
        }
        var process = NodeProcess(try read())
        if check {
            let migration = try process.check()
            try Terminal.print("\(config) is right.")
            if let migration {
                try Terminal.print("The next start migrates the store to its model: \(migration).")
            }
            return
        }
        process.reread = read
        try await process.run()
    }
}
