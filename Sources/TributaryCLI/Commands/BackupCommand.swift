import ArgumentParser
import Coordinator
import Foundation

/// `tributary backup`.
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy a node's store to a file on its machine, while it runs.",
        discussion: """
            The file is a store in its own right, which `tributary restore` puts in the store's \
            place. Needs an admin token where there are tokens. Copying the files of a node that \
            runs makes no backup.
            """)

    @Argument(
        help: "The new file, on the node's machine; a relative path is taken from here.",
        completion: .file())
    var path: String

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let absolute = URL(fileURLWithPath: path).path
        let interface = try source.open()
        let answer = try await interface.change("/v1/backup", ["path": .string(absolute)])
        try interface.show(answer, asJSON: source.json) { answer, _ in
            [
                "\(JSONRendering.brief(answer["path"])) holds generation "
                    + "\(JSONRendering.brief(answer["generation"])), "
                    + "\(JSONRendering.brief(answer["bytes"])) bytes."
            ]
        }
        await interface.close()
    }
}
