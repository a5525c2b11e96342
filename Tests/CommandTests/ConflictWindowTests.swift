import Testing

@testable import TributaryCLI

@Suite("What a watch of conflicts tells")
struct ConflictWindowTests {
    private func window(_ ids: String, isCut: Bool = false) -> ConflictWindow {
        ConflictWindow(ids: ids.map(String.init), isCut: isCut)
    }

    private func changes(
        _ before: ConflictWindow, _ after: ConflictWindow
    ) -> (new: String, closed: String) {
        let changes = after.changes(since: before)
        return (changes.new.joined(), changes.closed.joined())
    }

    @Test("Of a whole list all that came is new, oldest first, and all that went has closed")
    func whole() {
        let found = changes(window("dcba"), window("fedb"))
        #expect(found == ("ef", "ac"))
        #expect(changes(window(""), window("ba")) == ("ab", ""))
        #expect(changes(window("ba"), window("")) == ("", "ab"))
    }

    @Test("What leaves at the end of a cut list has not closed")
    func pushedOut() {
        let found = changes(window("dcba", isCut: true), window("fedc", isCut: true))
        #expect(found == ("ef", ""))
        #expect(changes(window("dcba"), window("fedc", isCut: true)) == ("ef", ""))
    }

    @Test("What comes in at the end of a cut list is not new")
    func comesBack() {
        #expect(changes(window("fedc", isCut: true), window("fcba", isCut: true)) == ("", "de"))
        // Only what stands above what both have is known to have closed.
        #expect(changes(window("fedc", isCut: true), window("fedb")) == ("", "c"))
        #expect(changes(window("fed", isCut: true), window("dcb")) == ("", "ef"))
    }

    @Test("A cut list that has become empty reports nothing as closed")
    func nothingShared() {
        #expect(changes(window("ba", isCut: true), window("dc", isCut: true)) == ("cd", ""))
    }
}
