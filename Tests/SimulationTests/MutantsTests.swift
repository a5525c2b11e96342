import Foundation
import Testing

/// The mutants of `make mutants` are text that names lines of the product. Where such a line
/// changes, its mutant must follow; these tests say so without building any of them.
@Suite struct MutantsTests {
    private struct Edit {
        var mutant: String
        var file: String
        var find: String
        var replacement: String
    }

    private let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test("Every mutant changes lines that stand once in the product")
    func everyMutantPlants() throws {
        let edits = try allEdits()
        #expect(Set(edits.map(\.mutant)).count >= 24)
        for edit in edits {
            let text = try String(
                contentsOf: root.appendingPathComponent(edit.file), encoding: .utf8)
            let count = text.ranges(of: edit.find).count
            #expect(count == 1, "\(edit.mutant) finds its lines \(count) times in \(edit.file)")
        }
    }

    @Test("The copy that mutants are built in has all that the package names")
    func everyTargetIsCopied() throws {
        func text(_ path: String) throws -> String {
            try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
        }
        let runner = try text("Tests/Mutants/Runner/Planting.swift")
        let package = try text("Package.swift")
        let paths = package.matches(of: /path: "([^"]+)"/).map { String($0.output.1) }
        #expect(!paths.isEmpty)
        for path in paths {
            let folders = [String(path.prefix { $0 != "/" }), path]
            #expect(folders.contains { runner.contains("\"\($0)\"") }, "\(path) is not copied")
        }
    }

    @Test("No two mutants change the same lines, so that all go into one build")
    func noTwoMutantsOverlap() throws {
        for (file, edits) in Dictionary(grouping: try allEdits(), by: \.file) {
            let text = try String(contentsOf: root.appendingPathComponent(file), encoding: .utf8)
            let places = edits.compactMap { edit in
                text.range(of: edit.find).map { (range: $0, mutant: edit.mutant) }
            }.sorted { $0.range.lowerBound < $1.range.lowerBound }
            for (first, second) in zip(places, places.dropFirst()) {
                #expect(
                    first.range.upperBound <= second.range.lowerBound,
                    "\(first.mutant) and \(second.mutant) overlap in \(file)")
            }
        }
    }

    @Test("Every mutant sleeps until it is woken: what it changes asks whether it is awake")
    func everyMutantSleeps() throws {
        let edits = try allEdits()
        for (mutant, edits) in Dictionary(grouping: edits, by: \.mutant) {
            #expect(edits.contains { $0.replacement.contains("MUTANT") }, "\(mutant)")
            for edit in edits where !edit.file.hasPrefix("Sources/") {
                Issue.record("\(mutant) changes \(edit.file), which is not the product")
            }
            for edit in edits where edit.file.hasPrefix("Sources/Simulation/") {
                Issue.record("\(mutant) changes its own judge, \(edit.file)")
            }
        }
    }

    @Test("Every law of DESIGN section 14 is named by a mutant that it should catch")
    func everyLawIsNamed() throws {
        var named: [Int: [String]] = [:]
        for (mutant, text) in try allTexts() {
            let line = try #require(
                text.split(separator: "\n").first { $0.hasPrefix("law: ") }, "\(mutant)")
            for part in line.dropFirst(5).split(separator: ",") {
                let law = try #require(
                    Int(part.trimmingCharacters(in: .whitespaces)), "\(mutant): \(line)")
                named[law, default: []].append(mutant)
            }
        }
        for law in 1...12 {
            #expect(named[law]?.isEmpty == false, "No mutant names law \(law)")
        }
        // 0 is the simulator's own; there are no others.
        #expect(Set(named.keys).isSubset(of: 0...12), "\(named.keys.sorted())")
    }

    private func allTexts() throws -> [(mutant: String, text: String)] {
        let folder = root.appendingPathComponent("Tests/Mutants")
        return try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".mutant") }.sorted()
            .map { name in
                (name, try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8))
            }
    }

    private func allEdits() throws -> [Edit] {
        try allTexts().flatMap { edits(of: $0.mutant, $0.text) }
    }

    /// The edits of a mutant's file, whose format Tests/Mutants/Runner/Mutant.swift tells.
    private func edits(of mutant: String, _ text: String) -> [Edit] {
        var edits: [Edit] = []
        var file = ""
        // Each part begins with the name of what it holds, in a line of its own.
        for part in text.components(separatedBy: "\n--- find\n").enumerated() {
            let lines = part.element.split(separator: "\n", omittingEmptySubsequences: false)
            if part.offset > 0 {
                let halves = part.element.components(separatedBy: "\n--- replace\n")
                edits.append(
                    Edit(
                        mutant: mutant, file: file, find: halves.first ?? "",
                        replacement: halves.last ?? ""))
            }
            if let named = lines.last(where: { $0.hasPrefix("file: ") }) {
                file = String(named.dropFirst(6))
            }
        }
        return edits
    }
}
