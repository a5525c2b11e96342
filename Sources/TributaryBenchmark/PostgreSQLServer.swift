import Foundation

/// A PostgreSQL server of the benchmark's own, one of several that replicate to each other.
///
/// It has its own data folder and a port of loopback, and no socket else. The machine's own clusters
/// are left alone. PostgreSQL refuses to run as root, so then it runs as `postgres`.
final class PostgreSQLServer: Server {
    let number: Int
    let port: Int
    private let folder: String
    private let log: String
    private let password: String
    private var process: Process?

    private static let programs = "/usr/lib/postgresql/15/bin"
    private static let account = "postgres"

    private init(number: Int, port: Int, in workspace: Workspace, password: String) {
        self.number = number
        self.port = port
        self.password = password
        folder = workspace.file("postgresql-\(number)")
        log = workspace.file("postgresql-\(number).log")
    }

    var processID: pid_t? { process?.processIdentifier }

    /// Runs a benchmark with servers that all replicate to each other, and ends them whatever
    /// happens.
    static func with<Result>(
        _ count: Int, in workspace: Workspace, password: String,
        _ body: ([PostgreSQLServer]) async throws -> Result
    ) async throws -> Result {
        let servers = try FreePorts.take(count).enumerated().map {
            PostgreSQLServer(number: $0 + 1, port: $1, in: workspace, password: password)
        }
        defer {
            for server in servers { server.end() }
        }
        for server in servers {
            try server.makeFolder()
            try server.start()
        }
        for server in servers {
            try await server.waitUntilReady()
            try server.makeTable()
        }
        for server in servers {
            for other in servers where other !== server { try server.subscribe(to: other) }
        }
        for server in servers { try await server.waitUntilReplicating() }
        return try await body(servers)
    }

    /// What to put before a command so that it does not run as root.
    private static var unprivileged: [String] {
        geteuid() != 0
            ? []
            : ["/usr/bin/setpriv", "--reuid=\(account)", "--regid=\(account)", "--clear-groups"]
    }

    private func makeFolder() throws {
        let secret = folder + ".password"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        try password.write(toFile: secret, atomically: true, encoding: .utf8)
        if geteuid() == 0 {
            for path in [folder, secret] {
                try FileManager.default.setAttributes(
                    [.ownerAccountName: Self.account], ofItemAtPath: path)
            }
        }
        try Process.output(
            of: Self.unprivileged + [
                Self.programs + "/initdb", "--pgdata=\(folder)", "--username=postgres",
                "--auth=scram-sha-256", "--pwfile=\(secret)", "--encoding=UTF8", "--locale=C",
                "--no-sync",
            ])
    }

    /// Starts it. What is not named has PostgreSQL's default.
    func start() throws {
        guard FileManager.default.createFile(atPath: log, contents: nil),
            let output = FileHandle(forWritingAtPath: log)
        else { throw BenchmarkError("\(log) cannot be written.") }
        let settings = [
            "listen_addresses=127.0.0.1", "port=\(port)", "unix_socket_directories=",
            "fsync=on", "synchronous_commit=on", "wal_level=logical", "max_worker_processes=16",
            "track_commit_timestamp=on", "shared_preload_libraries=pglogical",
            "pglogical.conflict_resolution=last_update_wins",
        ]
        let command =
            Self.unprivileged + [Self.programs + "/postgres", "-D", folder]
            + settings.flatMap { ["-c", $0] }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = Driver.environment(password)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
        self.process = process
    }

    /// Ends it: without waiting for its clients, then without a checkpoint.
    func end() { process?.end(with: SIGINT, or: SIGQUIT) }

    /// How others reach it. The password is in their environment: arguments are for all to read.
    private var address: String {
        "host=127.0.0.1 port=\(port) user=postgres dbname=postgres"
    }

    @discardableResult
    private func run(_ statements: String) throws -> String {
        try Process.output(
            of: [
                Self.programs + "/psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", address,
                "-c", statements,
            ], environment: Driver.environment(password))
    }

    private func waitUntilReady() async throws {
        let deadline = Clocks.seconds() + 30
        while true {
            do {
                try run("SELECT 1")
                return
            } catch {
                guard process?.isRunning ?? false, Clocks.seconds() < deadline else {
                    let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
                    throw BenchmarkError(
                        "PostgreSQL \(number) did not get ready: \(error)\n\(text.suffix(2000))")
                }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    private func makeTable() throws {
        try run(
            """
            CREATE EXTENSION pglogical;
            CREATE TABLE item (
                id uuid PRIMARY KEY DEFAULT gen_random_uuid(), count bigint, note text);
            SELECT pglogical.create_node('n\(number)', '\(address)');
            SELECT pglogical.replication_set_add_table('default', 'item');
            """)
    }

    /// Takes what is written at another. What that has from others comes from them.
    private func subscribe(to other: PostgreSQLServer) throws {
        try run(
            """
            SELECT pglogical.create_subscription(
                'n\(number)_from_n\(other.number)', '\(other.address)',
                synchronize_structure := false, synchronize_data := false,
                forward_origins := '{}')
            """)
    }

    private func waitUntilReplicating() async throws {
        let deadline = Clocks.seconds() + 30
        while true {
            let states = try run("SELECT status FROM pglogical.show_subscription_status()")
                .split(separator: "\n")
            if states.allSatisfy({ $0 == "replicating" }) { return }
            guard Clocks.seconds() < deadline else {
                throw BenchmarkError("PostgreSQL \(number) does not replicate: \(states)")
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}
