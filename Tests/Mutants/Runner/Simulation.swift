// Runs the simulator with one mutant awake.

import Foundation

/// What the simulator made of one mutant.
struct Verdict {
    /// Who spoke at the seed that caught it, from the first: `law N`, `replay`, `client` or `trap`;
    /// none where nothing was found.
    var catchers: [String]
    /// The seed that caught it; where none did, how many seeds were run.
    var seed: Int
    /// All that the simulator printed.
    var output: String

    /// Whether anything was found.
    var isCaught: Bool { !catchers.isEmpty }

    /// Whether one of the laws that a mutant names is among those who spoke.
    ///
    /// Where none is, the mutant is caught all the same: a run ends with the first seed that fails,
    /// and another law may rightly be the first to see what a defect leads to.
    func isAsNamed(by mutant: Mutant) -> Bool {
        mutant.laws.contains { catchers.contains($0 == 0 ? "replay" : "law \($0)") }
    }
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

    /// Looks for the first seed that fails with a mutant and passes without it: what fails in
    /// either case says nothing of the mutant.
    ///
    /// - Throws: where the program itself does not work.
    func judge(_ mutant: Mutant) throws -> Verdict {
        var first = 1
        while first <= mutant.seeds {
            let verdict = try run(mutant.name, first...mutant.seeds)
            guard verdict.isCaught else { break }
            if try !run(nil, verdict.seed...verdict.seed).isCaught { return verdict }
            first = verdict.seed + 1
        }
        return Verdict(catchers: [], seed: mutant.seeds, output: "")
    }

    /// Runs seeds until one of them finds something wrong.
    ///
    /// - Parameter mutant: the one to wake; nil for none.
    /// - Throws: where the program itself does not work.
    func run(_ mutant: String?, _ seeds: ClosedRange<Int>) throws -> Verdict {
        let range = "\(seeds.lowerBound)...\(seeds.upperBound)"
        var arguments = ["simulate", "--seeds", range, "--until-violation"]
        arguments += ["--check-replay", "\(min(seeds.count, Self.repeatedSeeds))"]
        if let jobs { arguments += ["--jobs", "\(jobs)"] }
        let (code, output) = try Self.run(program.path, arguments, mutant: mutant, isShown: false)
        let violations = output.split(separator: "\n").filter { $0.hasPrefix("seed ") }
        guard code == 1, let first = violations.first else {
            guard code == 0 else {
                throw Mutant.Fault(description: "The simulator ended with \(code):\n\(output)")
            }
            return Verdict(catchers: [], seed: seeds.upperBound, output: output)
        }
        let seed = Int(first.dropFirst(5).prefix { $0.isNumber }) ?? seeds.lowerBound
        // Of one seed several laws may speak; what comes first names it.
        let speakers = try violations.filter { $0.hasPrefix("seed \(seed):") }.map(Self.speaker)
        var catchers: [String] = []
        for speaker in speakers where !catchers.contains(speaker) { catchers.append(speaker) }
        return Verdict(catchers: catchers, seed: seed, output: output)
    }

    /// Who tells of a violation: `law N`; `replay` where a seed gave two runs; `client` for what a
    /// simulated client was answered; `trap` where the program ended itself.
    ///
    /// - Throws: where a run was ended from outside, or for its time: that proves nothing.
    private static func speaker(_ line: Substring) throws -> String {
        if let place = line.range(of: "law ") {
            let number = line[place.upperBound...].prefix { $0.isNumber }
            if number != "0" { return "law \(number)" }
            return line.contains("the same seed gave another run") ? "replay" : "client"
        }
        // Illegal instruction, trap, abort, bus error, arithmetic, segmentation fault.
        let traps = [4, 5, 6, 7, 8, 11].map { "the process died of signal \($0)" }
        guard traps.contains(where: { line.hasSuffix($0) }) else {
            throw Mutant.Fault(description: "A run was not left to itself: \(line)")
        }
        return "trap"
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
