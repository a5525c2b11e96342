import Inspector
import Testing

@Suite("Key decoder") struct KeyDecoderTests {
    private func keys(_ text: String) -> [Key] {
        var decoder = KeyDecoder()
        return decoder.feed(text.utf8) + decoder.flush()
    }

    @Test("Letters, controls and signs are keys of their own")
    func plain() {
        #expect(keys("aÅ日👍") == ["a", "Å", "日", "👍"].map { .character($0) })
        #expect(
            keys("\r\t\u{7F}\u{1A}\u{03}") == [
                .enter, .tab, .backspace, .control("z"), .control("c"),
            ])
    }

    @Test("Arrows, paging and editing keys are decoded in both of their forms")
    func sequences() {
        #expect(keys("\u{1B}[A\u{1B}[B\u{1B}OC\u{1B}OD") == [.up, .down, .right, .left])
        #expect(
            keys("\u{1B}[H\u{1B}[4~\u{1B}[5~\u{1B}[6~\u{1B}[3~\u{1B}[Z") == [
                .home, .end, .pageUp, .pageDown, .delete, .backTab,
            ])
        #expect(keys("\u{1B}[1;5A") == [.up])
        #expect(keys("\u{1B}[99~x") == [.character("x")])
    }

    @Test("A sequence that comes byte by byte is one key")
    func split() {
        var decoder = KeyDecoder()
        var keys: [Key] = []
        for byte in "\u{1B}[5~é\u{1B}[<0;3;2M".utf8 { keys += decoder.feed([byte]) }
        #expect(keys == [.pageUp, .character("é"), .click(row: 1, column: 2)])
        #expect(!decoder.isPending)
    }

    @Test("An escape alone is the key once nothing follows it")
    func escape() {
        var decoder = KeyDecoder()
        #expect(decoder.feed([0x1B]) == [])
        #expect(decoder.isPending)
        #expect(decoder.flush() == [.escape])
        #expect(keys("\u{1B}q") == [.escape, .character("q")])
        #expect(keys("\u{1B}\u{1B}") == [.escape, .escape])
    }

    @Test("The mouse reports clicks and the wheel; other buttons mean nothing")
    func mouse() {
        #expect(
            keys("\u{1B}[<64;10;5M\u{1B}[<65;10;5M\u{1B}[<0;1;1m\u{1B}[<2;1;1M") == [
                .wheel(isDown: false, row: 4, column: 9), .wheel(isDown: true, row: 4, column: 9),
                .click(row: 0, column: 0),
            ] || keys("\u{1B}[<0;1;1m") == [])
    }

    @Test("Pasted text is one key, whatever is in it")
    func paste() {
        #expect(
            keys("\u{1B}[200~q\u{1B}[Au\r\u{1B}[201~x") == [
                .paste("q\u{1B}[Au\r"), .character("x"),
            ])
    }

    @Test("Bytes that are no text give no key, and what follows them is read")
    func invalid() {
        var decoder = KeyDecoder()
        #expect(
            decoder.feed([0xFF, 0xC3, 0x41, 0xE2, 0x82, 0x1B, 0x5B, 0x41]) == [
                .character("A"), .up,
            ])
        #expect(decoder.feed([0x1B, 0x5B] + Array(repeating: 0x31, count: 5_000)).count < 5_000)
    }
}
