import Testing

@testable import TributaryCLI

@Suite("tributary inspect") struct InspectCommandTests {
    @Test("Without a terminal it ends with 2 and names the commands that need none")
    func noTerminal() async throws {
        let outcome = try await TestProgram().run(["inspect"], environment: ["TERM": "xterm"])
        #expect(outcome.exitCode == 2)
        #expect(outcome.output == "")
        #expect(outcome.errors.contains("`tributary conflicts list`"))
    }

    @Test("--json is refused: it shows and does not print")
    func json() async throws {
        let outcome = try await TestProgram().run(["inspect", "--json"])
        #expect(outcome.exitCode == 2)
        #expect(outcome.errors.contains("--json is for commands that print"))
    }

    @Test("The first variable of the locale that is set says whether it is UTF-8")
    func locale() {
        #expect(InspectCommand.isUTF8(["LANG": "sv_SE.UTF-8"]))
        #expect(InspectCommand.isUTF8(["LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"]))
        #expect(!InspectCommand.isUTF8(["LC_ALL": "C", "LANG": "sv_SE.UTF-8"]))
        #expect(!InspectCommand.isUTF8([:]))
    }
}
