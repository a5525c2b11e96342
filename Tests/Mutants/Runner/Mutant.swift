// A deliberate defect of the product, as a text file describes it.

import Foundation

/// One change of the product's source that the simulator must notice.
///
/// The file:
///
///     title: The loser of a merge is dropped at once
///     law: 1, 3
///     seeds: 500
///     file: Sources/Merge/Registers/Register.swift
///     --- find
///     the lines as they are, exactly once in that file
///     --- replace
///     the lines as they are to be; MUTANT stands for a condition that is true for this mutant
///
/// `find` and `replace` may come several times, and `file` before each of them. An edit may also
/// ask for another mutant, as `Mutation.isActive("NAME")`, where two change the same line.
struct Mutant {
    /// One place of one file.
    struct Edit {
        var file: String
        var find: String
        var replacement: String
    }

    /// The name of its file, by which it is woken.
    var name: String
    /// What is wrong while it is awake, in a few words.
    var title: String
    /// The laws of DESIGN section 14. Any of them should catch it. 0 stands for the simulator's
    /// own: one seed is one run.
    var laws: [Int]
    /// The most seeds it may take to be caught.
    var seeds: Int
    var edits: [Edit]

    /// What is wrong with a mutant.
    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// Reads a mutant's file.
    init(name: String, text: String) throws {
        self.name = name
        var reader = Reader(name: name)
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            try reader.take(String(line))
        }
        try reader.finish()
        guard let title = reader.fields["title"],
            let laws = try reader.fields["law"].map({ try Self.laws($0, of: name) }),
            let seeds = reader.fields["seeds"].flatMap({ Int($0) }), seeds > 0,
            !reader.edits.isEmpty
        else { throw Fault(description: "\(name): title, law, seeds or edits are missing") }
        guard reader.edits.contains(where: { $0.replacement.contains("MUTANT") }) else {
            throw Fault(description: "\(name): MUTANT stands nowhere in it")
        }
        self.title = title
        self.laws = laws
        self.seeds = seeds
        edits = reader.edits
    }

    /// Reads numbers with commas between them.
    private static func laws(_ text: String, of name: String) throws -> [Int] {
        try text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            guard let law = Int(part.trimmingCharacters(in: .whitespaces)),
                (0...12).contains(law)
            else { throw Fault(description: "\(name): \(part) is no law") }
            return law
        }
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
}

/// Takes in a mutant's file line by line.
private struct Reader {
    enum Part {
        case head, find, replace
    }

    let name: String
    private(set) var fields: [String: String] = [:]
    private(set) var edits: [Mutant.Edit] = []
    private var part = Part.head
    private var file: String?
    private var found: [String] = []
    private var replacement: [String] = []

    init(name: String) { self.name = name }

    mutating func take(_ line: String) throws {
        if line.hasPrefix("file: ") {
            try endEdit()
            part = .head
            file = String(line.dropFirst(6))
        } else if line == "--- find" {
            try endEdit()
            part = .find
        } else if line == "--- replace" {
            part = .replace
        } else {
            switch part {
            case .find: found.append(line)
            case .replace: replacement.append(line)
            case .head:
                guard let colon = line.firstIndex(of: ":") else { return }
                fields[String(line[..<colon])] = line[line.index(after: colon)...]
                    .trimmingCharacters(in: .whitespaces)
            }
        }
    }

    mutating func finish() throws {
        // The last line's end is not part of the replacement.
        if replacement.last == "" { replacement.removeLast() }
        try endEdit()
    }

    private mutating func endEdit() throws {
        defer { (found, replacement) = ([], []) }
        if found.isEmpty, replacement.isEmpty { return }
        guard let file, !found.isEmpty, !replacement.isEmpty else {
            throw Mutant.Fault(
                description: "\(name): an edit lacks its file, what to find or its replacement")
        }
        edits.append(
            Mutant.Edit(
                file: file, find: found.joined(separator: "\n"),
                replacement: replacement.joined(separator: "\n")))
    }
}
