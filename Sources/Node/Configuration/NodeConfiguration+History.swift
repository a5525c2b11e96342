// Reading the groups `history` and `journal` of a configuration.
//
// Functions without state.

internal import Coordinator

extension NodeConfiguration {
    static func readHistory(
        _ group: Setting?, journal: Setting?, file: String, outside: SettingsReader.Outside
    ) throws(NodeError) -> (limits: HistoryLimits, isIndexed: Bool) {
        var limits = HistoryLimits()
        let history = try SettingsReader(
            group, path: "history", origin: file, known: ["keep", "maximumBytes", "index"],
            outside: outside)
        if let keep = try history.optional("keep") {
            limits.keepMilliseconds = try keep.parsed(
                "a time such as 30d, 12h, 90m or 45s, of at most 36500 days", milliseconds)
        }
        if let bytes = try history.optional("maximumBytes") {
            limits.maximumBytes = UInt64(try bytes.integer(65_536...(1 << 50)))
        }
        let records = try SettingsReader(
            journal, path: "journal", origin: file, known: ["maximumRecords"], outside: outside)
        if let maximum = try records.optional("maximumRecords") {
            limits.maximumRecords = try maximum.integer(0...100_000_000)
        }
        return (limits, try history.optional("index")?.boolean() ?? false)
    }

    /// Reads `30d`, `12h`, `90m` or `45s`; nil for anything else.
    static func milliseconds(_ text: String) -> UInt64? {
        let units: [Character: UInt64] = ["d": 86_400, "h": 3_600, "m": 60, "s": 1]
        guard let last = text.last, let unit = units[last] else { return nil }
        let digits = text.dropLast()
        guard (1...10).contains(digits.utf8.count),
            digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = UInt64(digits)
        else { return nil }
        let seconds = count * unit
        return seconds <= 36_500 * 86_400 ? seconds * 1000 : nil
    }
}
