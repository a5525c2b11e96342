// A metric: its name and meaning, and how to read its value.

/// A metric that a node exports, read from a `Source`.
///
/// `/metrics` writes the lists of these and nothing else, and a test writes the same lists into
/// docs/OPERATIONS.md. So no metric lacks its line there.
struct Metric<Source>: Sendable {
    private enum Reading: Sendable {
        case samples(
            ExpositionWriter.Kind, [String],
            @Sendable (Source) -> [(labels: [String], value: Double)])
        case histogram(@Sendable (Source) -> Histogram)
    }

    let name: String
    /// The meaning in one line: the text of `# HELP`, and of the page.
    let help: String
    private let reading: Reading

    /// A metric that only rises while the process runs.
    static func counter(
        _ name: String, _ help: String, _ read: @escaping @Sendable (Source) -> UInt64
    ) -> Self {
        Self(
            name: name, help: help,
            reading: .samples(.counter, []) { [([], Double(read($0)))] })
    }

    /// A counter with a sample for each set of labels.
    static func counter(
        _ name: String, by labels: String..., help: String,
        _ read: @escaping @Sendable (Source) -> [(labels: [String], value: Double)]
    ) -> Self {
        Self(name: name, help: help, reading: .samples(.counter, labels, read))
    }

    /// A metric that rises and falls.
    static func gauge(
        _ name: String, _ help: String, _ read: @escaping @Sendable (Source) -> Double
    ) -> Self {
        Self(name: name, help: help, reading: .samples(.gauge, []) { [([], read($0))] })
    }

    /// A gauge with a sample for each set of labels.
    static func gauge(
        _ name: String, by labels: String..., help: String,
        _ read: @escaping @Sendable (Source) -> [(labels: [String], value: Double)]
    ) -> Self {
        Self(name: name, help: help, reading: .samples(.gauge, labels, read))
    }

    static func histogram(
        _ name: String, _ help: String, _ read: @escaping @Sendable (Source) -> Histogram
    ) -> Self {
        Self(name: name, help: help, reading: .histogram(read))
    }

    func write(_ source: Source, to writer: inout ExpositionWriter) {
        switch reading {
        case .samples(let kind, let labels, let read):
            writer.write(
                name, kind, help,
                read(source).map { sample in
                    (zip(labels, sample.labels).map { ($0, $1) }, sample.value)
                })
        case .histogram(let read): writer.write(name, help, read(source))
        }
    }

    /// The metric's line of the table in docs/OPERATIONS.md.
    var row: String {
        let type =
            switch reading {
            case .samples(let kind, [], _): kind.rawValue
            case .samples(let kind, let labels, _):
                "\(kind.rawValue) by \(labels.map { "`\($0)`" }.joined(separator: ", "))"
            case .histogram: ExpositionWriter.Kind.histogram.rawValue
            }
        return "| `\(name)` | \(type) | \(help) |"
    }
}

extension Array {
    /// The metrics in Prometheus' text format.
    func text<Source>(of source: Source) -> String where Element == Metric<Source> {
        var writer = ExpositionWriter()
        for metric in self { metric.write(source, to: &writer) }
        return writer.text
    }
}
