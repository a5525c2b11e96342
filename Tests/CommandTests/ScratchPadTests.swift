import Testing

/// The example of a scratch pad, run as a program: it fails by itself if a line is not as it should be.
@Suite struct ScratchPadTests {
    @Test("An edit on a scratch pad outlives a merge from another node")
    func runs() async throws {
        let outcome = try await TestProgram("scratch-pad").run([], seconds: 120)
        #expect(outcome.exitCode == 0, "\(outcome.output)\(outcome.errors)")
        #expect(outcome.output.contains("and took the new text:"))
        #expect(outcome.output.contains("Shopping for Sunday: Milk and bread"))
    }

    @Test("It takes no arguments")
    func refuses() async throws {
        let outcome = try await TestProgram("scratch-pad").run(["now"])
        #expect(outcome.exitCode == 1)
        #expect(outcome.errors.contains("usage: scratch-pad"))
    }
}
