import Foundation

/// The program in C that makes the same saves at Tributary and at PostgreSQL.
struct Driver {
    /// What it can do; its own page says how.
    enum Workload: String {
        case insert, visible, update, increment, add, await
    }

    /// Servers of one kind that replicate to each other.
    struct Contender {
        /// As the driver calls it.
        let side: String
        let servers: [any Server]

        /// How often threads of each server have given their processor up by themselves.
        var switches: [Int] {
            servers.map { ProcessGroup(below: [$0.processID].compactMap(\.self)).switches }
        }

        var group: ProcessGroup { ProcessGroup(below: servers.compactMap(\.processID)) }
    }

    /// What one run came to. What a workload does not tell is nil.
    struct Outcome: Decodable {
        var seconds: Double
        var count: Int?
        var refused: Int?
        var p50: Double?
        var p99: Double?
        /// From the last save until all servers have all.
        var settled: Double?
        /// How many rows each server has then.
        var rows: Int?
        /// How many cells lack their last value, or how much of a sum is missing.
        var lost: Int?
        /// How many cells were written, or the sum that was acknowledged.
        var of: Int?
        /// How many rows are not the same at all servers.
        var differing: Int?
        /// What all servers together used from the first save until all have all.
        var processorSeconds: Double?
        /// How often threads of each server gave their processor up by themselves meanwhile.
        var switches: [Int] = []

        private enum CodingKeys: String, CodingKey {
            case seconds, count, refused, p50, p99, settled, rows, lost, of, differing
        }
    }

    private let program: String
    private let password: String

    /// Compiles it.
    ///
    /// - Parameter tools: the folder with its source and the script that prepares it.
    /// - Throws: ``BenchmarkError`` that says what is missing.
    init(in workspace: Workspace, tools: String, password: String) throws {
        program = workspace.file("driver")
        self.password = password
        try Process.output(of: ["/bin/sh", tools + "/prepare", "build", program])
    }

    /// An environment with the password, for the driver and PostgreSQL.
    static func environment(_ password: String) -> [String: String] {
        ProcessInfo.processInfo.environment.merging(["PGPASSWORD": password]) { $1 }
    }

    /// Runs a workload.
    ///
    /// - Parameters:
    ///   - servers: how many servers it uses, the first or, for `await`, the last; nil for all.
    ///   - begin: what to do when all clients are connected, just before the first save.
    func run(
        _ workload: Workload, at contender: Contender, clients: Int = 1, saves: Int, rows: Int = 1,
        servers: Int? = nil, begin: () throws -> Void = {}
    ) throws -> Outcome {
        let count = servers ?? contender.servers.count
        let used =
            workload == .await
            ? contender.servers.suffix(count) : contender.servers.prefix(count)
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments =
            [contender.side, workload.rawValue, "\(clients)", "\(saves)", "\(rows)"]
            + used.map { "\($0.port)" }
        process.environment = Self.environment(password)
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        defer { process.end(with: SIGTERM, or: SIGKILL) }
        _ = try Self.line(from: output)
        try begin()
        let before = contender.group.processorSeconds
        let switches = contender.switches
        try input.fileHandleForWriting.write(contentsOf: Data([10]))
        let line = try Self.line(from: output)
        let after = contender.group.processorSeconds
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        var outcome = try JSONDecoder().decode(Outcome.self, from: line)
        outcome.processorSeconds = after - before
        outcome.switches = zip(contender.switches, switches).map { $0 - $1 }
        return outcome
    }

    private static func line(from pipe: Pipe) throws -> Data {
        var line = Data()
        while line.last != 10 {
            let more = pipe.fileHandleForReading.availableData
            guard !more.isEmpty else {
                throw BenchmarkError("The driver has ended early; its last line says why.")
            }
            line += more
        }
        return line
    }
}
