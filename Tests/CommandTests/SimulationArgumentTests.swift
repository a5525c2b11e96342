import Console
import Foundation
import Testing

@testable import TributaryLab

@Suite("What the simulate command is given")
struct SimulationArgumentTests {
    @Test("A range is FIRST...LAST, or one seed")
    func ranges() throws {
        #expect(try SeedRange.parse("1...1000") == SeedRange(first: 1, last: 1000))
        #expect(try SeedRange.parse("7") == SeedRange(first: 7, last: 7))
        for text in [
            "", "a", "3...1", "1..2", "-1...2", "1...", "...2", "1...99999999999999999999",
        ] {
            #expect(throws: CommandFailure.self) { try SeedRange.parse(text) }
        }
    }

    @Test("A list of events is read as it is written")
    func events() throws {
        #expect(try EventList.parse("0,3,5-9") == [0, 3, 5, 6, 7, 8, 9])
        #expect(EventList.text([0, 3, 5, 6, 7, 8, 9]) == "0,3,5-9")
        #expect(try EventList.parse(EventList.text([1, 2, 4])) == [1, 2, 4])
        for text in ["a", "1-", "9-5", "1-2-3", "-4", "0-99999999"] {
            #expect(throws: CommandFailure.self) { try EventList.parse(text) }
        }
    }

    @Test("A simulation ends with its count of violations, and with 1 where something is amiss")
    func simulate() async throws {
        let program = try TestProgram("tributary-lab")
        let model = URL(fileURLWithPath: #filePath).appending(
            path: "../../../deploy/examples/model.json"
        )
        .standardizedFileURL
        let runs = ["simulate", "--seeds", "1...2", "--nodes", "2...2"]
        let good = try await program.run(runs + ["--model", model.path], seconds: 120)
        #expect(good.exitCode == 0, "\(good)")
        #expect(good.output.hasSuffix("\n2 seeds, 0 violations\n"))
        // Two runs do not come by every rare path.
        let rare = try await program.run(runs + ["--calm", "--require-beacons"], seconds: 120)
        #expect(rare.exitCode == 1)
        let wrong = try await program.run(["simulate", "--nodes", "1...9"])
        #expect(wrong.exitCode == 2 && wrong.errors.contains("within 2...7"))
        let none = try await program.run(["simulate", "--model", "/nonexistent.json"])
        #expect(none.exitCode == 2 && none.errors.contains("/nonexistent.json"))
    }
}
