import ArgumentParser
import Console
import Coordinator
import Node

/// `tributary keygen`.
struct KeygenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keygen",
        abstract: "Make a node's key pair for the mesh.",
        discussion: """
            Writes the secret to a new file with the mode 0600, and prints the public key, which \
            goes into the peers' configurations.
            """)

    @Argument(help: "The file for the secret; it must not exist.", completion: .file())
    var secretFile: String

    @Flag(help: "Print a JSON object.")
    var json = false

    func run() async throws {
        let keys = try CurveKeys.generate()
        try keys.write(secretFile: secretFile)
        let answer: JSONValue = [
            "publicKey": .string(keys.publicKey.text), "secretKeyFile": .string(secretFile),
        ]
        if json {
            try Terminal.print(bytes: JSONWriter.bytes(of: answer))
        } else {
            try Terminal.print(keys.publicKey.text)
        }
    }
}
