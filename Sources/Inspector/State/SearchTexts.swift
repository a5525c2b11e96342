// Texts that are searched for words at each key.

internal import Glibc

/// Many short texts, one after the other. The system's search is fast also where nothing is optimised.
struct SearchTexts: Sendable {
    /// All texts, a line each, with a zero at the end.
    private var bytes: [UInt8] = [0]
    /// Where each begins in ``bytes``.
    private var starts: [Int] = []

    private static let end = UInt8(ascii: "\n")

    /// Text as it is searched: in small letters already, without control characters.
    static func searchable(_ text: some StringProtocol) -> [UInt8] {
        text.utf8.map { $0 < 0x20 ? 0x20 : $0 }
    }

    /// Adds a text, which ``searchable(_:)`` made.
    mutating func append(_ text: [UInt8]) {
        bytes.removeLast()
        starts.append(bytes.count)
        bytes += text
        bytes.append(Self.end)
        bytes.append(0)
    }

    /// Whether all words are in a text.
    func contains(_ words: [[UInt8]], at index: Int) -> Bool {
        if words.isEmpty { return true }
        let last = (index + 1 < starts.count ? starts[index + 1] : bytes.count - 1) - 1
        // A copy with an end of its own: the search would go on into the texts behind it.
        var text = Array(bytes[starts[index]..<last])
        text.append(0)
        return words.allSatisfy { Self.first($0 + [0], in: text, from: 0) != nil }
    }

    /// Which texts have all words; nil where there are no words.
    func hits(_ words: [[UInt8]]) -> [Bool]? {
        guard !words.isEmpty else { return nil }
        var result = Array(repeating: true, count: starts.count)
        for word in words {
            var found = Array(repeating: false, count: starts.count)
            let word = word + [0]
            var index = 0
            while index < starts.count, let place = Self.first(word, in: bytes, from: starts[index])
            {
                index = self.index(ofTextAt: place, from: index)
                found[index] = true
                index += 1
            }
            for index in result.indices where !found[index] { result[index] = false }
        }
        return result
    }

    /// The text that a place lies in. Usually it is near; if not, halving finds it.
    private func index(ofTextAt place: Int, from first: Int) -> Int {
        var (low, step) = (first, 1)
        while low + step < starts.count, starts[low + step] <= place {
            low += step
            step *= 2
        }
        var high = min(low + step, starts.count)
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= place { low = middle } else { high = middle }
        }
        return low
    }

    /// The place of a word in a text; both end with a zero.
    private static func first(_ word: [UInt8], in text: [UInt8], from start: Int) -> Int? {
        text.withUnsafeBytes { text in
            word.withUnsafeBytes { word in
                guard let text = text.assumingMemoryBound(to: CChar.self).baseAddress,
                    let word = word.assumingMemoryBound(to: CChar.self).baseAddress,
                    let found = strstr(text + start, word)
                else { return nil }
                return UnsafePointer(found) - text
            }
        }
    }
}
