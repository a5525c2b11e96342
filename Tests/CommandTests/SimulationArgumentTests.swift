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

    @Test("The sizes of clusters are a list, and what cannot be measured is refused")
    func scale() async throws {
        #expect(try ScaleCommand.sizes("3,10,256") == [3, 10, 256])
        for text in ["", "0", "1", "257", "3,", "3,x", "3...5", "2,2,2,2,2,2,2,2,2,2,2"] {
            #expect(throws: CommandFailure.self) { try ScaleCommand.sizes(text) }
        }
        let program = try TestProgram("tributary-lab")
        let good = try await program.run(["scale", "--nodes", "2,3", "--saves", "5"], seconds: 120)
        #expect(good.exitCode == 0, "\(good)")
        let lines = good.output.split(separator: "\n")
        #expect(lines.count == 4 && Set(lines.suffix(3).map(\.count)) == [75])
        #expect(lines.last?.split(separator: " ").prefix(2) == ["3", "2.0"])
        let wrong = try await program.run(["scale", "--nodes", "0"])
        #expect(wrong.exitCode == 2 && wrong.errors.contains("2 to 256 nodes"))
        let many = try await program.run(["scale", "--saves", "10001"])
        #expect(many.exitCode == 2 && many.errors.contains("1 to 10,000"))
        let unknown = try await program.run(["scale", "--size", "3"])
        #expect(unknown.exitCode == 2)
    }
}
