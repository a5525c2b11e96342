// A program of the command line: parses arguments, runs a command, ends with a code for scripts.

package import ArgumentParser

/// Runs a program's commands.
package enum Program {
    /// Runs the command that arguments name.
    ///
    /// - Parameters:
    ///   - root: the program itself, with its commands.
    ///   - arguments: without the program's name.
    ///   - elsewhere: the commands of other programs, with the name of each one's program.
    ///   - describe: gives what an error means; nil for one that it does not know.
    /// - Returns: the exit code.
    package static func run(
        _ root: any ParsableCommand.Type, _ arguments: [String],
        elsewhere: [String: String] = [:],
        describe: (any Error) -> CommandFailure? = { _ in nil }
    ) async -> Int32 {
        do {
            if let unknown = UnknownCommand(in: arguments, of: root) {
                return end(unknown.failure(elsewhere: elsewhere))
            }
            var command = try root.parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return 0
        } catch {
            do {
                return try tell(error, of: root, arguments, describe)
            } catch { return end(error) }
        }
    }

    /// Tells of an error on standard error alone, and gives its exit code.
    private static func end(_ failure: CommandFailure) -> Int32 {
        if failure.isUnread { return 0 }
        let label = Terminal.error.style.paint("Error:", .red)
        Terminal.complain("\(label) \(DisplayText.line(failure.message))\n")
        return failure.code.rawValue
    }

    /// Tells of an error, and gives its exit code.
    private static func tell(
        _ error: any Error, of root: any ParsableCommand.Type, _ arguments: [String],
        _ describe: (any Error) -> CommandFailure?
    ) throws(CommandFailure) -> Int32 {
        if let code = error as? ExitCode { return code.rawValue }
        guard let failure = error as? CommandFailure ?? describe(error) else {
            let code = root.exitCode(for: error).rawValue
            let message = root.fullMessage(for: error)
            if code == 0 {
                try Terminal.print(message)
                return 0
            }
            if code == 64 {
                Terminal.complain(message + "\n")
                return CommandFailure.Code.usage.rawValue
            }
            return end(CommandFailure(.failed, "\(error)"))
        }
        if let answer = failure.answer, arguments.contains("--json") {
            try Terminal.print(bytes: answer)
        }
        return end(failure)
    }
}
