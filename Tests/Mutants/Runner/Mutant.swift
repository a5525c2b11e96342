// A deliberate defect of the product, as a text file describes it.

import Foundation

/// One change of the product's source that a suite must notice.
///
/// The file:
///
///     title: The loser of a merge is dropped at once
///     law: 1
///     seeds: 500
///     file: Sources/Merge/Registers/Register.swift
///     --- find
///     the lines as they are, exactly once in that file
///     --- replace
///     the lines as they are to be; MUTANT stands for a condition that is true for this mutant
///
/// `file`, `find` and `replace` may come several times.
struct Mutant {
    struct Edit {
        var file: String
        var find: String
        var replacement: String
    }

    var name: String
    var title: String
    /// The law it breaks first.
    var law: Int
    /// The most seeds it may take to be caught.
    var seeds: Int
    var edits: [Edit]

    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// Reads a mutant's file.
    init(name: String, text: String) throws {
        self.name = name
        var fields: [String: String] = [:]
        var edits: [Edit] = []
        var file: String?
        var part: String?
        var parts: [String: [String]] = [:]
        func finish() throws {
            guard let find = parts["find"] else { return }
            guard let file, let replacement = parts["replace"] else {
                throw Fault(description: "\(name): an edit lacks its file or its replacement")
            }
            edits.append(
                Edit(
                    file: file, find: find.joined(separator: "\n"),
                    replacement: replacement.joined(separator: "\n")))
            parts = [:]
        }
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("file: ") {
                try finish()
                part = nil
                file = String(line.dropFirst(6))
            } else if line == "--- find" {
                try finish()
                part = "find"
            } else if line == "--- replace" {
                part = "replace"
            } else if let part {
                parts[part, default: []].append(line)
            } else if let colon = line.firstIndex(of: ":") {
                fields[String(line[..<colon])] = line[line.index(after: colon)...]
                    .trimmingCharacters(in: .whitespaces)
            }
        }
        // The last line's end is not part of the replacement.
        if parts["replace"]?.last == "" { parts["replace"]?.removeLast() }
        try finish()
        guard let title = fields["title"], let law = fields["law"].flatMap({ Int($0) }),
            !edits.isEmpty
        else { throw Fault(description: "\(name): title, law or edits are missing") }
        self.title = title
        self.law = law
        seeds = fields["seeds"].flatMap { Int($0) } ?? 1_000
        self.edits = edits
    }

    /// Reads all mutants of a folder, sorted by name.
    static func all(in folder: URL) throws -> [Mutant] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".mutant") }.sorted()
            .map {
                try Mutant(
                    name: String($0.dropLast(7)),
                    text: String(contentsOf: folder.appendingPathComponent($0), encoding: .utf8))
            }
    }

    /// Puts the mutant into a copy of the sources, asleep.
    func plant(in tree: URL) throws {
        for edit in edits {
            let url = tree.appendingPathComponent(edit.file)
            let text = try String(contentsOf: url, encoding: .utf8)
            guard text.components(separatedBy: edit.find).count == 2 else {
                throw Fault(
                    description: "\(name): what it changes is not exactly once in \(edit.file); "
                        + "the code has moved on, and so must the mutant")
            }
            let condition = "Mutation.isActive(\"\(name)\")"
            try text.replacingOccurrences(
                of: edit.find,
                with: edit.replacement.replacingOccurrences(of: "MUTANT", with: condition)
            ).write(to: url, atomically: true, encoding: .utf8)
        }
    }
}
