// Shows that the suite is awake: every deliberate defect must be caught.
//
//     tributary-mutants ROOT [NAME...]
//
// All mutants go into one copy of the sources, each asleep until its name is in the environment, so
// that one build serves all. The copy as it is must run without a violation, and with each mutant
// awake the simulator must report one within the mutant's seeds.

import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
guard let rootPath = arguments.first else {
    FileHandle.standardError.write(Data("usage: tributary-mutants ROOT [NAME...]\n".utf8))
    exit(2)
}
let root = URL(fileURLWithPath: rootPath)
let work = root.appendingPathComponent(".build-mutants")
let tree = work.appendingPathComponent("tree")

do {
    let all = try Mutant.all(in: root.appendingPathComponent("Tests/Mutants"))
    let wanted = Set(arguments.dropFirst())
    let chosen = all.filter { wanted.isEmpty || wanted.contains($0.name) }
    guard !chosen.isEmpty else { throw Mutant.Fault(description: "There are no such mutants.") }
    try prepare(all)
    print("Building the product with \(all.count) mutants asleep...")
    guard
        run(
            "swift",
            [
                "build", "-c", "release", "--package-path", tree.path, "--scratch-path",
                work.appendingPathComponent("build").path, "--product", "tributary",
            ], mutant: nil, quiet: false
        ).code == 0
    else { throw Mutant.Fault(description: "The mutants do not build.") }
    exit(judge(chosen) ? 0 : 1)
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}

/// Copies the sources and plants all mutants; files that are the same as before stay untouched, so
/// that a second build is quick.
func prepare(_ mutants: [Mutant]) throws {
    let files = FileManager.default
    let fresh = work.appendingPathComponent("fresh")
    try? files.removeItem(at: fresh)
    try files.createDirectory(at: fresh, withIntermediateDirectories: true)
    for name in ["Package.swift", "Sources", "Tests"] {
        try files.copyItem(
            at: root.appendingPathComponent(name), to: fresh.appendingPathComponent(name))
    }
    for mutant in mutants { try mutant.plant(in: fresh) }
    let mutation = """
        import Glibc

        /// Which mutant is awake in this process.
        package enum Mutation {
            private static let name: String? = getenv("TRIBUTARY_MUTANT").map {
                String(cString: $0)
            }

            /// Whether the mutant of that name is awake.
            package static func isActive(_ name: String) -> Bool { Mutation.name == name }
        }

        """
    try mutation.write(
        to: fresh.appendingPathComponent("Sources/Merge/Mutation.swift"), atomically: true,
        encoding: .utf8)
    try synchronise(fresh, tree)
}

/// Makes one folder like another, touching only what differs.
func synchronise(_ from: URL, _ to: URL) throws {
    let files = FileManager.default
    var kept = Set<String>()
    for case let path as String in files.enumerator(atPath: from.path) ?? .init() {
        let source = from.appendingPathComponent(path)
        let target = to.appendingPathComponent(path)
        kept.insert(path)
        var isFolder: ObjCBool = false
        guard files.fileExists(atPath: source.path, isDirectory: &isFolder) else { continue }
        if isFolder.boolValue {
            try files.createDirectory(at: target, withIntermediateDirectories: true)
            continue
        }
        let bytes = try Data(contentsOf: source)
        if (try? Data(contentsOf: target)) != bytes { try bytes.write(to: target) }
    }
    for case let path as String in files.enumerator(atPath: to.path) ?? .init()
    where !kept.contains(path) {
        try? files.removeItem(at: to.appendingPathComponent(path))
    }
}

/// Wakes one mutant after the other.
func judge(_ mutants: [Mutant]) -> Bool {
    var isFine = true
    let control = simulate(nil, seeds: 300)
    print(control.code == 0 ? "asleep: 300 seeds without a violation" : "asleep: VIOLATIONS")
    if control.code != 0 {
        print(control.output)
        isFine = false
    }
    print("MUTANT\tLAW\tCAUGHT BY\tSEEDS\tTITLE")
    var caught = 0
    for mutant in mutants {
        let result = simulate(mutant.name, seeds: mutant.seeds)
        let laws = Set(
            result.output.split(separator: "\n").compactMap { line -> Int? in
                guard line.hasPrefix("seed "), let law = line.range(of: "law ") else { return nil }
                return Int(line[law.upperBound...].prefix { $0.isNumber })
            }
        ).sorted()
        let seeds =
            result.output.split(separator: "\n").last.map { String($0.prefix { $0.isNumber }) }
            ?? "?"
        let isCaught = result.code == 1
        if isCaught { caught += 1 }
        isFine = isFine && isCaught
        let by =
            isCaught
            ? (laws.isEmpty ? "a trap" : laws.map { "law \($0)" }.joined(separator: ", "))
            : "NOBODY"
        print("\(mutant.name)\t\(mutant.law)\t\(by)\t\(seeds)\t\(mutant.title)")
    }
    print("\(mutants.count) mutants, \(caught) caught")
    return isFine
}

func simulate(_ mutant: String?, seeds: Int) -> (code: Int32, output: String) {
    run(
        work.appendingPathComponent("build/release/tributary").path,
        ["simulate", "--seeds", "1...\(seeds)", "--until-violation", "--check-replay", "20"],
        mutant: mutant, quiet: true)
}

/// Runs a program to its end.
func run(
    _ program: String, _ arguments: [String], mutant: String?, quiet: Bool
) -> (code: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [program] + arguments
    var environment = ProcessInfo.processInfo.environment
    environment["TRIBUTARY_MUTANT"] = mutant
    process.environment = environment
    let pipe = Pipe()
    if quiet {
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
    }
    do { try process.run() } catch { return (127, "\(error)") }
    let output = quiet ? pipe.fileHandleForReading.readDataToEndOfFile() : Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: output, as: UTF8.self))
}
