import Testing

/// The rules of CONTRIBUTING.md about where code may be and how much of it. What breaks one is listed
/// here as an exception, and the lists only shrink: an exception that is not needed any more fails too.
@Suite("House rules") struct HouseRulesTests {
    private let repository: Repository

    init() throws { repository = try Repository() }

    /// Who may import a library: whole folders, and files by their names.
    private struct ImportRule {
        let modules: Set<String>
        let folders: [String]
        let exceptions: Set<String>
    }

    private static let imports = [
        ImportRule(modules: ["CZeroMQ"], folders: ["Sources/Node/Mesh/ZeroMQ/"], exceptions: []),
        ImportRule(modules: ["_FoundationICU"], folders: [], exceptions: ["Collation.swift"]),
        ImportRule(
            modules: ["GRDB", "GRDBSQLite", "CSQLite"],
            folders: [
                "Sources/Coordinator/Store/", "Sources/Coordinator/Lifecycle/",
                "Sources/Simulation/Disk/",
            ],
            exceptions: [
                "BareLoop.swift",
                "BareReader.swift",
                "GRDBReader.swift",
                "GRDBWriter.swift",
                "GenerationPin.swift",
                "GroupCommit.swift",
                "Machine.swift",
                "PersistentStoreCoordinator+Reading.swift",
                "PersistentStoreCoordinator.swift",
                "SQLiteFile.swift",
                "Verification+Groups.swift",
            ]),
    ]

    @Test("Only the store imports GRDB, only the mesh imports libzmq")
    func importsByFolder() throws {
        var offences: [String] = []
        for rule in Self.imports {
            var used = Set<String>()
            for file in repository.sources where !rule.folders.contains(where: file.hasPrefix) {
                for line in try repository.lines(file) {
                    guard let module = Self.module(importedBy: line.text),
                        rule.modules.contains(module)
                    else { continue }
                    used.insert(file.fileName)
                    if !rule.exceptions.contains(file.fileName) {
                        offences.append("\(line.place) imports \(module)")
                    }
                }
            }
            offences += rule.exceptions.subtracting(used).sorted().map {
                "\($0) is no exception any more: take it off the list"
            }
        }
        #expect(offences.isEmpty, "\(offences.joined(separator: "\n"))")
    }

    private static func module(importedBy line: Substring) -> String? {
        let words = line.split(separator: " ")
        guard let place = words.firstIndex(of: "import"), place + 1 < words.count,
            words[..<place].allSatisfy({
                $0.hasPrefix("@") || ["public", "package", "internal", "private"].contains($0)
            })
        else { return nil }
        return words[place + 1].split(separator: ".").first.map(String.init)
    }

    @Test("No Swift file has more than 800 lines")
    func fileSizes() throws {
        var offences: [String] = []
        for file in repository.files where file.hasSuffix(".swift") {
            let size = try repository.size(file)
            if size > 800 { offences.append("\(file) has \(size)") }
        }
        #expect(offences.isEmpty, "\(offences.joined(separator: "\n"))")
    }

    private static let largestType = (files: 5, lines: 1_000)

    /// What types have that have more, at most.
    private static let largeTypes: [String: (files: Int, lines: Int)] = [
        "NodeConfiguration": (6, 880),
        "PersistentStoreCoordinator": (11, 1_480),
        "Replicator": (6, 1_390),
        "World": (6, 1_520),
    ]

    @Test("A type has at most five files and 1,000 lines")
    func typeSizes() throws {
        var types: [String: (files: Int, lines: Int)] = [:]
        for file in repository.sources {
            let type = String(file.fileName.dropLast(".swift".count).prefix { $0 != "+" })
            types[type, default: (0, 0)].files += 1
            types[type, default: (0, 0)].lines += try repository.size(file)
        }
        var offences: [String] = []
        for (type, size) in types {
            let most = Self.largeTypes[type] ?? Self.largestType
            if size.files > most.files || size.lines > most.lines {
                offences.append("\(type) has \(size.files) files with \(size.lines) lines")
            }
        }
        for type in Self.largeTypes.keys {
            let size = types[type] ?? (0, 0)
            if size.files <= Self.largestType.files, size.lines <= Self.largestType.lines {
                offences.append("\(type) is no exception any more: take it off the list")
            }
        }
        #expect(offences.isEmpty, "\(offences.sorted().joined(separator: "\n"))")
    }
}
