import Logging
import Synchronization

/// Counts and keeps log lines.
final class LogLines: Sendable {
    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.add("\(event.level) \(event.message) \(event.metadata ?? [:])")
        }
    }

    private let state = Mutex<[String]>([])

    var all: [String] { state.withLock { $0 } }
    var count: Int { all.count }
    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private func add(_ line: String) { state.withLock { $0.append(line) } }
}
