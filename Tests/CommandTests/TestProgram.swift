import Foundation
import TestSupport

/// Runs a built program, which lies beside the test bundle; whatever happens, it is ended.
struct TestProgram {
    /// What a run gave.
    struct Outcome {
        let exitCode: Int32
        let output: String
        let errors: String
    }

    let url: URL

    init(_ name: String = "tributary") throws { url = try BuiltProgram.find(name) }

    init(url: URL) { self.url = url }

    /// Runs it to its end.
    ///
    /// - Parameters:
    ///   - arguments: without the program's name.
    ///   - environment: set beside what the test has; TRIBUTARY_ variables are not passed on.
    ///   - input: what it reads from standard input.
    ///   - seconds: when it is killed, which gives the exit code of the signal.
    ///   - isUnread: whether the reader of what it prints has gone.
    func run(
        _ arguments: [String], environment: [String: String] = [:], input: String = "",
        seconds: Double = 30, isUnread: Bool = false
    ) async throws -> Outcome {
        let process = Process()
        process.executableURL = url
        process.arguments = arguments
        var variables = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("TRIBUTARY_")
        }
        variables.merge(environment) { $1 }
        process.environment = variables
        let (output, errors, given) = (Pipe(), Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = given
        if isUnread { try output.fileHandleForReading.close() }
        try process.run()
        let identifier = process.processIdentifier
        let alarm = Task.detached {
            try await Task.sleep(for: .seconds(seconds))
            kill(identifier, SIGKILL)
        }
        defer { alarm.cancel() }
        try? given.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try? given.fileHandleForWriting.close()
        // Both at once: a full pipe would stop the program.
        async let outputBytes = isUnread ? Data() : Self.read(output.fileHandleForReading)
        async let errorBytes = Self.read(errors.fileHandleForReading)
        let texts = await (outputBytes, errorBytes)
        process.waitUntilExit()
        return Outcome(
            exitCode: process.terminationStatus, output: String(decoding: texts.0, as: UTF8.self),
            errors: String(decoding: texts.1, as: UTF8.self))
    }

    private static func read(_ handle: FileHandle) async -> Data {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(returning: (try? handle.readToEnd()) ?? Data())
            }
        }
    }
}
