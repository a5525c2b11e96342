import Foundation

/// The demo's input: the machine's own package database, or a bundled list where there is none.
struct DemoData {
    /// A file of Debian control stanzas.
    let path: String
    /// Where it comes from, for people.
    let description: String

    private static let database = "/var/lib/dpkg/status"

    /// Chooses the input.
    ///
    /// - Parameter folder: where the bundled list is written, if it is needed.
    init(folder: URL) throws {
        if let text = try? String(contentsOfFile: Self.database, encoding: .utf8) {
            let packages = text.components(separatedBy: "\nPackage: ").count
            if packages >= 50 {
                path = Self.database
                description =
                    "\(Self.database): \(packages) packages with maintainers, sections "
                    + "and dependencies"
                return
            }
        }
        let file = folder.appendingPathComponent("elements.control")
        try Data(BundledElements.control().utf8).write(to: file)
        path = file.path
        description = "This machine has no package database, so: the chemical elements"
    }
}
