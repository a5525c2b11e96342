// Runs the simulator with one mutant awake.

import Foundation

/// What the simulator made of one mutant.
struct Verdict {
    /// What it found wrong, as it names it; nil where it found nothing.
    var catcher: String?
    /// The seed that caught it; where none did, how many seeds were run.
    var seed: Int
    /// All that the simulator printed.
    var output: String
}

/// The program with all mutants in it.
struct Simulation {
    /// The program's file.
    let program: URL
    /// How many runs go on at once; nil for one a core.
    let jobs: Int?
    /// Seeds that run twice where the first runs find nothing, in another process: hash order
    /// differs there, and must not show.
    static let repeatedSeeds = 20

    /// Runs seeds from 1 on until one of them finds something wrong.
    ///
    /// - Parameter mutant: the one to wake; nil for none.
    /// - Throws: where the program itself does not work.
    func run(_ mutant: String?, seeds: Int) throws -> Verdict {
        var arguments = ["simulate", "--seeds", "1...\(seeds)", "--until-violation"]
        arguments += ["--check-replay", "\(min(seeds, Self.repeatedSeeds))"]
        if let jobs { arguments += ["--jobs", "\(jobs)"] }
        let (code, output) = try Self.run(program.path, arguments, mutant: mutant, isShown: false)
        let violations = output.split(separator: "\n").filter { $0.hasPrefix("seed ") }
        guard code == 1, let first = violations.first else {
            guard code == 0 else {
                throw Mutant.Fault(description: "The simulator ended with \(code):\n\(output)")
            }
            return Verdict(catcher: nil, seed: seeds, output: output)
        }
        let seed = Int(first.dropFirst(5).prefix { $0.isNumber }) ?? 0
        // Of one seed several laws may speak; what comes first names it.
        let laws = violations.filter { $0.hasPrefix("seed \(seed):") }.map(Self.law)
        var catchers: [String] = []
        for law in laws where !catchers.contains(law) { catchers.append(law) }
        return Verdict(catcher: catchers.joined(separator: ", "), seed: seed, output: output)
    }

    /// `law N`, `replay` or `trap`.
    private static func law(_ line: Substring) -> String {
        guard let place = line.range(of: "law ") else { return "trap" }
        let number = line[place.upperBound...].prefix { $0.isNumber }
        return number == "0" ? "replay" : "law \(number)"
    }

    /// Runs a program to its end.
    ///
    /// - Parameter isShown: whether it prints where this program prints; else its output is given.
    static func run(
        _ program: String, _ arguments: [String], mutant: String?, isShown: Bool
    ) throws -> (code: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        var environment = ProcessInfo.processInfo.environment
        environment["TRIBUTARY_MUTANT"] = mutant
        process.environment = environment
        let pipe = Pipe()
        if !isShown {
            process.standardOutput = pipe
            process.standardError = FileHandle.nullDevice
        }
        try process.run()
        let output = isShown ? Data() : pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}
