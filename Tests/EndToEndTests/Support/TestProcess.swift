import Foundation
import Synchronization
import TestSupport

/// One run of the `tributary` program, as a process of its own.
///
/// The test that starts one ends it; ``end()`` does so whatever state the process is in.
final class TestProcess: Sendable {
    let output: URL
    let errors: URL
    let pid: Int32
    private let process: Process

    /// Starts the program; what it says is appended to two files.
    ///
    /// - Parameters:
    ///   - launcher: a program with arguments that becomes ours, such as a tracer; empty for none.
    ///   - environment: what is added to this process's environment.
    init(
        _ arguments: [String], output: URL, errors: URL, launcher: [String] = [],
        environment: [String: String] = [:]
    ) throws {
        self.output = output
        self.errors = errors
        process = Process()
        let line = launcher + [try BuiltProgram.find().path] + arguments
        process.executableURL = URL(fileURLWithPath: line[0])
        process.arguments = Array(line.dropFirst())
        if !environment.isEmpty {
            process.environment = ProcessInfo.processInfo.environment
                .merging(environment) { $1 }
        }
        process.standardOutput = try Self.appending(output)
        process.standardError = try Self.appending(errors)
        process.standardInput = FileHandle.nullDevice
        try process.run()
        pid = process.processIdentifier
    }

    private static func appending(_ file: URL) throws -> FileHandle {
        if !FileManager.default.fileExists(atPath: file.path) {
            try Data().write(to: file)
        }
        let handle = try FileHandle(forWritingTo: file)
        try handle.seekToEnd()
        return handle
    }

    var isRunning: Bool { process.isRunning }

    /// Sends a signal, if the process is still there.
    func send(_ signal: Int32) {
        if process.isRunning { kill(pid, signal) }
    }

    /// Waits for the end; gives the exit code, or minus the signal that ended it.
    func waitForExit(timeout: Duration = .seconds(30)) async throws -> Int32 {
        try await eventually("process \(pid) had ended", within: timeout, every: .milliseconds(10))
        {
            !process.isRunning
        }
        let status = process.terminationStatus
        return process.terminationReason == .uncaughtSignal ? -status : status
    }

    /// Ends the process for certain: gently, then not.
    func end() async {
        send(SIGCONT)
        send(SIGTERM)
        if (try? await waitForExit(timeout: .seconds(8))) == nil {
            send(SIGKILL)
            _ = try? await waitForExit(timeout: .seconds(5))
        }
    }

    /// The memory that the process holds, in bytes; 0 when it is gone.
    var residentBytes: Int {
        let text = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
        for line in text.split(separator: "\n") where line.hasPrefix("VmRSS:") {
            let number = line.split(whereSeparator: { !$0.isNumber }).first
            return (number.flatMap { Int($0) } ?? 0) * 1024
        }
        return 0
    }

    /// How many descriptors it has open.
    var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? 0
    }

    /// The end of what it said on standard error.
    var lastErrors: String {
        String(((try? String(contentsOf: errors, encoding: .utf8)) ?? "").suffix(3000))
    }

    /// Runs the program to its end; gives its exit code and what it said.
    static func run(
        _ arguments: [String], in folder: URL, timeout: Duration = .seconds(60)
    ) async throws -> (code: Int32, output: String, errors: String) {
        let output = folder.appendingPathComponent("run.out")
        let errors = folder.appendingPathComponent("run.err")
        try Data().write(to: output)
        try Data().write(to: errors)
        let process = try TestProcess(arguments, output: output, errors: errors)
        let code: Int32
        do {
            code = try await process.waitForExit(timeout: timeout)
        } catch {
            await process.end()
            throw error
        }
        return (
            code, try String(contentsOf: output, encoding: .utf8),
            try String(contentsOf: errors, encoding: .utf8)
        )
    }
}
