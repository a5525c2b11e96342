// Puts all mutants into one copy of the sources, asleep.

import Foundation

/// A copy of the product with every mutant in it.
struct Planting {
    /// The product's sources.
    let root: URL
    /// Where the copy goes.
    let tree: URL

    /// What comes into being beside the product's own files: the one question all mutants ask.
    static let mutation = (
        file: "Sources/Merge/Mutation.swift",
        text: """
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
    )

    /// Makes the copy; files that are the same as before stay untouched, so that a second build
    /// is quick.
    func plant(_ mutants: [Mutant]) throws {
        var fresh = try originals()
        for (file, edits) in Self.byFile(mutants) {
            guard let bytes = fresh[file] else {
                throw Mutant.Fault(description: "\(edits[0].name): there is no file \(file)")
            }
            let text = String(decoding: bytes, as: UTF8.self)
            fresh[file] = Data(try Self.planted(text, edits, in: file).utf8)
        }
        fresh[Self.mutation.file] = Data(Self.mutation.text.utf8)
        try write(fresh)
    }

    /// A text with edits of several mutants. All are found in the text as it was, so that their
    /// order does not matter.
    static func planted(
        _ text: String, _ edits: [(name: String, edit: Mutant.Edit)], in file: String
    ) throws -> String {
        var places: [(range: Range<String.Index>, name: String, replacement: String)] = []
        for (name, edit) in edits {
            let found = text.ranges(of: edit.find)
            guard found.count == 1 else {
                throw Mutant.Fault(
                    description: "\(name): what it changes is \(found.count) times in \(file), not "
                        + "once; the code has moved on, and so must the mutant")
            }
            let replacement = edit.replacement.replacingOccurrences(
                of: "MUTANT", with: "Mutation.isActive(\"\(name)\")")
            places.append((found[0], name, replacement))
        }
        places.sort { $0.range.lowerBound < $1.range.lowerBound }
        var result = ""
        var end = text.startIndex
        for (place, previous) in zip(places, [nil] + places.map { Optional($0.name) }) {
            guard end <= place.range.lowerBound else {
                throw Mutant.Fault(
                    description: "\(place.name) and \(previous ?? "another") change the same "
                        + "lines of \(file)")
            }
            result += text[end..<place.range.lowerBound] + place.replacement
            end = place.range.upperBound
        }
        return result + text[end...]
    }

    private static func byFile(
        _ mutants: [Mutant]
    ) -> [String: [(name: String, edit: Mutant.Edit)]] {
        var result: [String: [(name: String, edit: Mutant.Edit)]] = [:]
        for mutant in mutants {
            for edit in mutant.edits { result[edit.file, default: []].append((mutant.name, edit)) }
        }
        return result
    }

    // MARK: Files

    private func originals() throws -> [String: Data] {
        var result: [String: Data] = [:]
        for name in ["Package.swift", "Package.resolved"] {
            let url = root.appendingPathComponent(name)
            if let bytes = try? Data(contentsOf: url) { result[name] = bytes }
        }
        for folder in ["Sources", "Tests", "Examples", "Fuzz/Sources"] {
            for path in Self.files(in: root.appendingPathComponent(folder)) {
                let name = "\(folder)/\(path)"
                result[name] = try Data(contentsOf: root.appendingPathComponent(name))
            }
        }
        return result
    }

    private func write(_ contents: [String: Data]) throws {
        let manager = FileManager.default
        for (name, bytes) in contents {
            let url = tree.appendingPathComponent(name)
            if (try? Data(contentsOf: url)) == bytes { continue }
            try manager.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try bytes.write(to: url, options: .atomic)
        }
        for path in Self.files(in: tree) where contents[path] == nil {
            try manager.removeItem(at: tree.appendingPathComponent(path))
        }
    }

    private static func files(in folder: URL) -> [String] {
        let manager = FileManager.default
        var result: [String] = []
        for case let path as String in manager.enumerator(atPath: folder.path) ?? .init() {
            var isFolder: ObjCBool = false
            let whole = folder.appendingPathComponent(path).path
            if manager.fileExists(atPath: whole, isDirectory: &isFolder), !isFolder.boolValue {
                result.append(path)
            }
        }
        return result
    }
}
