import Foundation

/// A database server that the benchmark starts and ends.
protocol Server: AnyObject {
    var port: Int { get }
    /// Its first process; nil before it was started.
    var processID: pid_t? { get }

    func start() throws
    func end()
}

extension Process {
    /// Runs a program to its end.
    ///
    /// - Returns: what it wrote to its output.
    /// - Throws: ``BenchmarkError`` with what it wrote to its errors, unless it ends with 0.
    @discardableResult
    static func output(
        of command: [String], environment: [String: String]? = nil
    ) throws -> String {
        let process = Process()
        let (output, errors) = (Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        if let environment { process.environment = environment }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkError(
                "\(command[0]) ended with \(process.terminationStatus): "
                    + String(decoding: complaint.suffix(2000), as: UTF8.self))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Ends it by a signal, and by another if it still runs after 10 s.
    func end(with gentle: Int32, or last: Int32) {
        guard isRunning else { return }
        kill(processIdentifier, gentle)
        let deadline = Clocks.seconds() + 10
        while isRunning, Clocks.seconds() < deadline { usleep(10_000) }
        if isRunning { kill(processIdentifier, last) }
        waitUntilExit()
    }
}
