// Alarms as people read them: in the log, and in the status of a node.

internal import Logging
internal import Merge
internal import Replication

/// An alarm as text: for the log, and for status.
struct AlarmLine: Sendable {
    let name: AlarmName
    let level: Logger.Level
    let message: Logger.Message
    /// The peer, the transaction and the reason.
    let metadata: Logger.Metadata

    init(
        _ name: AlarmName, _ level: Logger.Level, _ message: Logger.Message,
        _ metadata: Logger.Metadata
    ) {
        self.name = name
        self.level = level
        self.message = message
        self.metadata = metadata
    }

    /// The message with its metadata, in one line.
    var text: String {
        let particulars = metadata.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        return "\(message) (\(particulars.joined(separator: ", ")))"
    }
}

/// An alarm that was raised, once or several times.
package struct RaisedAlarm: Hashable, Sendable {
    /// An ``AlarmName``.
    package var name: String
    /// The peer that it is about; nil if it is about none.
    package var peer: String?
    /// Its latest text, with the metadata.
    package var text: String
    /// How often it was raised.
    package var count: UInt64
    /// When it was raised last, in monotonic milliseconds.
    package var raisedAt: UInt64
}

extension NodeCounters {
    /// Counts an alarm, keeps it for status, and writes it to the log.
    func raise(_ line: AlarmLine, _ logger: Logger) {
        countAlarm(line, now: MonotonicClock.milliseconds)
        var metadata = line.metadata
        metadata[LogKeys.alarm] = "\(line.name.rawValue)"
        logger.log(level: line.level, line.message, metadata: metadata)
    }
}

extension Alarm {
    /// How an alarm reads in the log and in status.
    var line: AlarmLine {
        switch self {
        case .digestMismatch(let peer, _, let ours, let theirs):
            AlarmLine(
                .digestMismatch,
                .critical, "A peer shows other data at the same vector; run verify",
                [
                    LogKeys.peer: "\(peer)", LogKeys.digest: "\(ours)",
                    LogKeys.theirs: "\(theirs)",
                ]
            )
        case .refused(let peer, let refusal):
            AlarmLine(
                .refused,
                .error, "A peer is refused: it does not fit this node",
                [
                    LogKeys.peer: "\(peer)", LogKeys.part: "\(refusal.part.rawValue)",
                    LogKeys.reason: "\(refusal.reason)",
                ]
            )
        case .dotReused(let dot, let peer):
            AlarmLine(
                .dotReused,
                .critical, "A peer has transactions in our name that we never wrote",
                [LogKeys.peer: "\(peer)", LogKeys.transaction: "\(dot)"]
            )
        case .twoNodesWithOneID(let node, let incarnation):
            AlarmLine(
                .twoNodesWithOneID,
                .critical, "Another live process uses this number of a node",
                incarnation.map {
                    [
                        LogKeys.peer: "\(node)",
                        LogKeys.reason: "incarnation \(String($0, radix: 16))",
                    ]
                } ?? [LogKeys.peer: "\(node)"]
            )
        case .incarnationOutdated(let node, let incarnation, let newest):
            AlarmLine(
                .incarnationOutdated,
                .warning, "A peer comes as an incarnation that is not its newest",
                [
                    LogKeys.peer: "\(node)",
                    LogKeys.reason:
                        "\(String(incarnation, radix: 16)) is older than \(String(newest, radix: 16))",
                ]
            )
        case .unexpectedSender(let expected, let claimed):
            AlarmLine(
                .unexpectedSender,
                .error, "The node at a peer's address is another one",
                [LogKeys.peer: "\(expected)", LogKeys.theirs: "\(claimed)"]
            )
        case .rejected(let dot, let reason):
            AlarmLine(
                .rejected,
                .error, "A transaction could not be applied and is held",
                [LogKeys.transaction: "\(dot)", LogKeys.reason: "\(reason)"]
            )
        case .timestampInFuture(let dot, let timestamp):
            AlarmLine(
                .timestampInFuture,
                .error, "A transaction is held: its clock is far ahead",
                [LogKeys.transaction: "\(dot)", LogKeys.reason: "\(timestamp)"]
            )
        case .clockOff(let milliseconds):
            AlarmLine(
                .clockOff,
                .critical,
                "This node's clock is far off from the other members'; saves are refused",
                [LogKeys.reason: "it is ahead by \(Double(milliseconds) / 1000) s"]
            )
        case .stampsAhead(let latest, let milliseconds):
            AlarmLine(
                .stampsAhead,
                .critical,
                "This node's saves are stamped far ahead of its clock: others hold them",
                [
                    LogKeys.reason:
                        "\(latest) is ahead by \(Double(milliseconds) / 1000) s; its clock was ahead once"
                ]
            )
        case .clocksApart(let milliseconds):
            AlarmLine(
                .clocksApart,
                .error, "The other node's clock and this one's are far apart",
                [LogKeys.reason: "the other's is ahead by \(Double(milliseconds) / 1000) s"]
            )
        case .transactionTooLarge(let dot, let bytes):
            AlarmLine(
                .transactionTooLarge,
                .critical, "A save is too long to be carried to other nodes",
                [LogKeys.transaction: "\(dot)", LogKeys.bytes: "\(bytes)"]
            )
        case .transferFailed(let donor, let reason):
            AlarmLine(
                .transferFailed,
                .error, "A copy of a member's store could not be taken over",
                [LogKeys.peer: "\(donor)", LogKeys.reason: "\(reason)"]
            )
        case .historyTooShort(let peer, let missing):
            AlarmLine(
                .historyTooShort,
                .warning, "A peer's history does not reach back far enough",
                [LogKeys.peer: "\(peer)", LogKeys.count: "\(missing)"]
            )
        case .departed(let peer):
            AlarmLine(
                .departed,
                .critical, "This node is not a member of its cluster any more, and takes no saves",
                [LogKeys.peer: "\(peer)"]
            )
        case .undecodable(let reason):
            AlarmLine(
                .undecodable, .warning, "A frame could not be decoded",
                [LogKeys.reason: "\(reason)"])
        }
    }
}
