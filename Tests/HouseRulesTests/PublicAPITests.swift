import Foundation
import Testing

/// What other packages see of the libraries stands in `Tests/Fixtures/api`, so that nothing becomes public,
/// or goes, unnoticed. `TRIBUTARY_MAKE_FIXTURES=1` in the environment writes it again.
@Suite("Public API") struct PublicAPITests {
    @Test(
        "The public API is what is written down",
        arguments: ["Client", "Coordinator", "Merge", "Node"])
    func baseline(module: String) throws {
        let repository = try Repository()
        var api = PublicAPI()
        for file in repository.sources where file.hasPrefix("Sources/\(module)/") {
            api.add(try repository.lines(file).map(\.text))
        }
        let path = Repository.root.appendingPathComponent("Tests/Fixtures/api/\(module).txt")
        if ProcessInfo.processInfo.environment["TRIBUTARY_MAKE_FIXTURES"] == "1" {
            let text = api.declarations.sorted().map { $0 + "\n" }.joined()
            try FileManager.default.createDirectory(
                at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.write(to: path, atomically: true, encoding: .utf8)
        }
        let known = Set(
            try String(contentsOf: path, encoding: .utf8).split(separator: "\n").map(String.init))
        let added = api.declarations.subtracting(known).sorted().map { "+ \($0)" }
        let removed = known.subtracting(api.declarations).sorted().map { "- \($0)" }
        #expect(
            added.isEmpty && removed.isEmpty,
            "Tests/Fixtures/api/\(module).txt\n\((removed + added).joined(separator: "\n"))")
    }

    @Test("Declarations are listed with their types, without their bodies")
    func reading() {
        let text = """
            public struct Box<Value>: Sendable
            where Value: Sendable {
                /// What is in it.
                public let value: Value
                let hidden: Int
                public enum Kind {
                    case open, shut
                    case broken(
                        Int)
                }
                public func take(
                    _ other: Value, twice: Bool = false
                ) throws -> Value {
                    case open
                    return other
                }
            }
            extension Box: Hashable {}
            enum Hidden {
                case one
            }
            public protocol Lid {
                var size: Int { get }
            }
            """
        var api = PublicAPI()
        api.add(text.split(separator: "\n", omittingEmptySubsequences: false))
        #expect(
            api.declarations.sorted() == [
                "Box.Kind: case broken(Int)", "Box.Kind: case open, shut",
                "Box: public enum Kind",
                "Box: public func take(_ other: Value, twice: Bool = false) throws -> Value",
                "Box: public let value: Value", "Lid: var size: Int",
                "public protocol Lid", "public struct Box<Value>: Sendable where Value: Sendable",
            ])
    }
}
