// Shows that the simulator is awake: it must catch every deliberate defect.
//
//     tributary-mutants ROOT [--jobs N] [NAME...]
//
// All mutants go into one copy of the sources, each asleep until its name is in the environment, so
// that one build serves all. The copy as it is must run without a violation, and with each mutant
// awake the simulator must report one within the mutant's seeds, at a seed that passes without it.
// Beside the laws that the mutant names, the output has the law that reported it, marked if it is
// none of them. That is for readers, and fails nothing.

import Foundation

var names = Array(CommandLine.arguments.dropFirst())
var jobs: Int?
if let place = names.firstIndex(of: "--jobs"), place + 1 < names.count {
    jobs = Int(names[place + 1])
    names.removeSubrange(place...(place + 1))
}
guard !names.isEmpty, !names.contains(where: { $0.hasPrefix("-") }) else {
    FileHandle.standardError.write(
        Data("usage: tributary-mutants ROOT [--jobs N] [NAME...]\n".utf8))
    exit(2)
}
let root = URL(fileURLWithPath: names.removeFirst())

do {
    let all = try Mutant.all(in: root.appendingPathComponent("Tests/Mutants"))
    for name in names where !all.contains(where: { $0.name == name }) {
        throw Mutant.Fault(description: "There is no mutant \(name).")
    }
    let chosen = all.filter { names.isEmpty || names.contains($0.name) }
    let simulation = Simulation(program: try build(all, root, jobs: jobs), jobs: jobs)
    exit(try judge(chosen, simulation, controlSeeds: 300) ? 0 : 1)
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}

/// Prints a line at once, also into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// Builds the product with all mutants in it.
///
/// - Returns: the program.
func build(_ mutants: [Mutant], _ root: URL, jobs: Int?) throws -> URL {
    let work = root.appendingPathComponent(".build-mutants")
    let tree = work.appendingPathComponent("tree")
    let scratch = work.appendingPathComponent("build")
    try Planting(root: root, tree: tree).plant(mutants)
    say("Building the product with \(mutants.count) mutants asleep (some minutes)...")
    var arguments = ["build", "-c", "release", "--package-path", tree.path]
    arguments += ["--scratch-path", scratch.path, "--product", "tributary-lab"]
    if let jobs { arguments += ["-j", "\(jobs)"] }
    let code = try Simulation.run("swift", arguments, mutant: nil, isShown: true).code
    guard code == 0 else { throw Mutant.Fault(description: "The mutants do not build.") }
    return scratch.appendingPathComponent("release/tributary-lab")
}

/// Wakes one mutant after the other.
///
/// - Parameter controlSeeds: seeds that must pass while every mutant is asleep.
/// - Returns: whether nothing was found without them, and each of them was.
func judge(
    _ mutants: [Mutant], _ simulation: Simulation, controlSeeds: Int
) throws -> Bool {
    let control = try simulation.run(nil, 1...controlSeeds)
    if control.isCaught {
        let catchers = control.catchers.joined(separator: ", ")
        say("asleep: seed \(control.seed) fails without any mutant (\(catchers))")
        say(control.output)
    } else {
        say("asleep: \(controlSeeds) seeds without a violation")
    }
    let width = mutants.map(\.name.count).max() ?? 0
    func row(_ name: String, _ law: String, _ catcher: String, _ seeds: String, _ title: String) {
        func padded(_ text: String, _ width: Int) -> String {
            text + String(repeating: " ", count: max(0, width - text.count))
        }
        let cells = [
            padded(name, width), padded(law, 5), padded(catcher, 28), padded(seeds, 5), title,
        ]
        say(cells.joined(separator: " "))
    }
    row("MUTANT", "LAW", "CAUGHT BY", "SEEDS", "WHAT IS WRONG WHILE IT IS AWAKE")
    var (missed, otherwise) = ([String](), [String]())
    var counts: [String: Int] = [:]
    for mutant in mutants {
        let verdict = try simulation.judge(mutant)
        for catcher in verdict.catchers { counts[catcher, default: 0] += 1 }
        var catchers = verdict.catchers.joined(separator: ", ")
        if !verdict.isCaught {
            missed.append(mutant.name)
            catchers = "NOBODY"
        } else if !verdict.isAsNamed(by: mutant) {
            otherwise.append(mutant.name)
            catchers = "OTHER: " + catchers
        }
        let named = mutant.laws.map { $0 == 0 ? "-" : "\($0)" }.joined(separator: ", ")
        row(mutant.name, named, catchers, "\(verdict.seed)", mutant.title)
    }
    say("\(mutants.count) mutants, \(mutants.count - missed.count) caught")
    if !missed.isEmpty { say("caught by nobody: \(missed.joined(separator: ", "))") }
    if !otherwise.isEmpty {
        say("caught by none of the laws that they name: \(otherwise.joined(separator: ", "))")
    }
    // A mutant counts for each who spoke at the seed that caught it; laws that never did are named,
    // too.
    let speakers = (1...12).map { "law \($0)" } + ["replay", "client", "trap"]
    let told = speakers.map { "\($0): \(counts[$0] ?? 0)" }
    say("mutants caught by each: \(told.joined(separator: ", "))")
    return !control.isCaught && missed.isEmpty
}
