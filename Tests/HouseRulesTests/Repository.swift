import Foundation

/// The files of this repository, by their paths in it.
struct Repository {
    /// A line of a file.
    struct Line {
        let file: String
        let number: Int
        let text: Substring

        /// The line as compilers name it.
        var place: String { "\(file):\(number)" }

        /// What it says to readers: all of a page's, and of code what is behind two slashes.
        var prose: Substring {
            guard file.hasSuffix(".swift") else { return text }
            guard let start = text.range(of: "//"), !text[..<start.lowerBound].hasSuffix(":") else {
                return ""
            }
            return text[start.upperBound...]
        }
    }

    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let folders = [
        "Sources", "Tests", "Examples", "Fuzz", "docs", "deploy", ".ci",
    ]
    /// Input of the fuzzer, what it builds, and what a release wrote.
    private static let skipped = [
        "Fuzz/Corpus", "Fuzz/Regressions", "Fuzz/.build", "Tests/Fixtures",
    ]

    /// All files, sorted.
    let files: [String]

    init() throws {
        let manager = FileManager.default
        var files = try manager.contentsOfDirectory(atPath: Self.root.path).filter {
            $0.hasSuffix(".md") || $0.hasSuffix(".swift") || $0 == "Makefile"
        }
        for folder in Self.folders {
            let found = manager.enumerator(atPath: Self.root.appendingPathComponent(folder).path)
            while let path = found?.nextObject() as? String {
                guard found?.fileAttributes?[.type] as? FileAttributeType == .typeRegular else {
                    continue
                }
                files.append("\(folder)/\(path)")
            }
        }
        self.files = files.filter { file in
            !Self.skipped.contains { file.hasPrefix($0) }
        }.sorted()
    }

    /// The Swift files of the product.
    var sources: [String] {
        files.filter { $0.hasPrefix("Sources/") && $0.hasSuffix(".swift") }
    }

    /// The pages.
    var pages: [String] { files.filter { $0.hasSuffix(".md") } }

    func lines(_ file: String) throws -> [Line] {
        let text = try String(
            contentsOf: Self.root.appendingPathComponent(file), encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map {
            Line(file: file, number: $0.offset + 1, text: $0.element)
        }
    }

    /// The lines of files that have a mark in them. Looking through bytes first spares time.
    func lines(of files: [String], with mark: String) throws -> [Line] {
        try files.flatMap { file -> [Line] in
            let data = try Data(contentsOf: Self.root.appendingPathComponent(file))
            guard data.range(of: Data(mark.utf8)) != nil else { return [] }
            return try lines(file).filter { $0.text.contains(mark) }
        }
    }

    /// How many lines a file has.
    func size(_ file: String) throws -> Int {
        try lines(file).count - 1
    }
}

extension String {
    /// The name of a path's file.
    var fileName: String { String(split(separator: "/").last ?? "") }
}
