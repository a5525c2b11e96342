// Shows that the simulator is awake: it must catch every deliberate defect.
//
//     tributary-mutants ROOT [--jobs N] [NAME...]
//
// All mutants go into one copy of the sources, each asleep until its name is in the environment, so
// that one build serves all. The copy as it is must run without a violation, and with each mutant
// awake the simulator must report one within the mutant's seeds, at a seed that passes without it.

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
    arguments += ["--scratch-path", scratch.path, "--product", "tributary"]
    if let jobs { arguments += ["-j", "\(jobs)"] }
    let code = try Simulation.run("swift", arguments, mutant: nil, isShown: true).code
    guard code == 0 else { throw Mutant.Fault(description: "The mutants do not build.") }
    return scratch.appendingPathComponent("release/tributary")
}

/// Wakes one mutant after the other.
///
/// - Parameter controlSeeds: seeds that must pass while every mutant is asleep.
/// - Returns: whether nothing was found without them, and each of them was.
func judge(
    _ mutants: [Mutant], _ simulation: Simulation, controlSeeds: Int
) throws -> Bool {
    let control = try simulation.run(nil, 1...controlSeeds)
    if let catcher = control.catcher {
        say("asleep: seed \(control.seed) fails without any mutant (\(catcher))")
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
            padded(name, width), padded(law, 4), padded(catcher, 24), padded(seeds, 5), title,
        ]
        say(cells.joined(separator: " "))
    }
    row("MUTANT", "LAW", "CAUGHT BY", "SEEDS", "WHAT IS WRONG WHILE IT IS AWAKE")
    var caught = 0
    for mutant in mutants {
        let verdict = try simulation.judge(mutant)
        if verdict.catcher != nil { caught += 1 }
        row(
            mutant.name, mutant.law == 0 ? "-" : "\(mutant.law)", verdict.catcher ?? "NOBODY",
            "\(verdict.seed)", mutant.title)
    }
    say("\(mutants.count) mutants, \(caught) caught")
    return control.catcher == nil && caught == mutants.count
}
