import Testing

@testable import TributaryCLI

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
}
