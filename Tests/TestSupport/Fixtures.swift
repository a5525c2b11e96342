public import Foundation

/// Files that a program has made, by which tests see that every later one reads them: a store, and
/// the bytes of transactions and messages.
///
/// A change that makes one of these tests fail breaks what decision 0025 promises. A new layout, format
/// or revision gets files of its own beside these. `TRIBUTARY_MAKE_FIXTURES=1` in the environment has
/// the tests write the files before they read them.
public enum Fixtures {
    /// Where they are.
    public static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Fixtures")

    /// Whether the tests write them.
    public static let areMade =
        ProcessInfo.processInfo.environment["TRIBUTARY_MAKE_FIXTURES"] == "1"

    /// The lines of a text.
    public static func lines(_ name: String) throws -> [String] {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
            .split(separator: "\n").map(String.init)
    }

    /// Keeps lines as a text.
    public static func keep(_ lines: [String], as name: String) throws {
        try Data((lines.joined(separator: "\n") + "\n").utf8)
            .write(to: folder.appendingPathComponent(name))
    }
}
