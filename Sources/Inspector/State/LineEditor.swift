/// A line of text that is being typed.
package struct LineEditor: Hashable, Sendable {
    /// More is not taken.
    package static let maximum = 4_096

    package private(set) var text: String
    /// Where the next character goes, in characters from the beginning.
    package private(set) var position: Int

    /// An editor at the end of a text.
    package init(_ text: String = "") {
        self.text = text
        position = text.count
    }

    /// Does what a key means here; false where it means nothing.
    package mutating func take(_ key: Key) -> Bool {
        switch key {
        case .character(let character): insert(String(character))
        case .paste(let pasted): insert(String(pasted.prefix(Self.maximum)))
        case .backspace:
            guard position > 0 else { return true }
            position -= 1
            text.remove(at: index)
        case .delete: if position < text.count { text.remove(at: index) }
        case .left: position = max(0, position - 1)
        case .right: position = min(text.count, position + 1)
        case .home, .control("a"): position = 0
        case .end, .control("e"): position = text.count
        case .control("u"):
            text.removeSubrange(..<index)
            position = 0
        default: return false
        }
        return true
    }

    private var index: String.Index { text.index(text.startIndex, offsetBy: position) }

    private mutating func insert(_ added: String) {
        guard text.count + added.count <= Self.maximum else { return }
        let count = text.count
        text.insert(contentsOf: added, at: index)
        // A combining mark makes no character of its own.
        position = max(0, min(text.count, position + text.count - count))
    }
}
