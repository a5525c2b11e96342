// Prometheus' text format, version 0.0.4, written by hand.

/// Writes metrics as text: each family with its help and type, then its samples.
struct ExpositionWriter {
    /// The types that are used here.
    enum Kind: String {
        case counter, gauge, histogram
    }

    /// The text so far; every line ends with a line feed.
    private(set) var text = ""

    /// Writes one metric with a sample per set of labels.
    mutating func write(
        _ name: String, _ kind: Kind, _ help: String,
        _ samples: [(labels: [(name: String, value: String)], value: Double)]
    ) {
        begin(name, kind, help)
        for (labels, value) in samples { sample(name, labels, value) }
    }

    /// Writes a histogram, whose buckets are cumulative in this format.
    mutating func write(_ name: String, _ help: String, _ histogram: Histogram) {
        begin(name, .histogram, help)
        var total: UInt64 = 0
        for (bound, count) in zip(histogram.bounds, histogram.counts) {
            total += count
            sample("\(name)_bucket", [("le", Self.number(bound))], Double(total))
        }
        sample("\(name)_bucket", [("le", "+Inf")], Double(histogram.count))
        sample("\(name)_sum", [], histogram.sum)
        sample("\(name)_count", [], Double(histogram.count))
    }

    private mutating func begin(_ name: String, _ kind: Kind, _ help: String) {
        text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n"
        text += "# TYPE \(name) \(kind.rawValue)\n"
    }

    private mutating func sample(
        _ name: String, _ labels: [(name: String, value: String)], _ value: Double
    ) {
        text += name
        if !labels.isEmpty {
            let pairs = labels.map { "\($0.name)=\"\(Self.escaped($0.value, quotes: true))\"" }
            text += "{\(pairs.joined(separator: ","))}"
        }
        text += " \(Self.number(value))\n"
    }

    /// Backslash and line feed are escaped everywhere, quotation marks in labels only.
    static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// Whole numbers without a fraction; otherwise the shortest text that reads back the same.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return value.description
    }
}
