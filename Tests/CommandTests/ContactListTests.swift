import Testing

/// The example runs, and its lists read no more than they say.
@Suite("The contact list example")
struct ContactListTests {
    @Test("It shows 2,000 contacts with as many statements as it promises")
    func contacts() async throws {
        let outcome = try await TestProgram("contact-list").run(["--count", "2000"], seconds: 120)
        #expect(outcome.errors == "")
        #expect(outcome.exitCode == 0)
        for line in [
            "saved 2000 of 2000 contacts", "list: 2000 contacts, 50 read, the first is Ada",
            "picture: 64 bytes for ", "sections: A 286, E 286, J 286, M 572, ",
            "groups: Family 667, Friends 667, Work 666",
            "search MARTA n: Márta Novák ",
        ] {
            #expect(outcome.output.contains(line), "\(outcome.output)")
        }
    }

    @Test("Wrong arguments are said, and it ends with 1")
    func usage() async throws {
        let outcome = try await TestProgram("contact-list").run(["--count", "many"])
        #expect(outcome.exitCode == 1)
        #expect(outcome.errors.contains("usage: contact-list"))
    }
}
