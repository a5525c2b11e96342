// Says in the log who was refused for his key and by whom we are, without letting a stranger fill
// the log.
//
// Threading: belongs to the loop's thread.

internal import Logging
internal import Merge

/// Compares each report on keys with the last, and logs what is new.
struct MeshWatch {
    /// How long nothing is said again of one who keeps knocking, or keeps refusing us, in
    /// milliseconds.
    static let repetitionMilliseconds: UInt64 = 60_000
    /// How many refusals are logged in that time altogether; the metrics count all.
    static let linesInAWhile = 10
    /// How long the endpoints may be unbound before it is said, in milliseconds.
    static let bindingMilliseconds: UInt64 = 1_000

    private var saidAt: [MeshKeyReport.Refusal: UInt64] = [:]
    private var handshakesSaidAt: [NodeID: [MeshKeyReport.Handshake: UInt64]] = [:]
    private var failuresSaidAt: [NodeID: UInt64] = [:]
    private var unboundSince: UInt64?
    private var isUnboundSaid = false

    /// Logs what is new since the last call.
    mutating func note(_ report: MeshKeyReport, now: UInt64, logger: Logger) {
        noteRefusals(report.refusals, now: now, logger: logger)
        let hasKeys = report.publicKey != nil
        for peer in report.peers where isNews(peer, now: now) {
            Self.say(peer, hasKeys: hasKeys, logger)
        }
        for peer in report.peers { noteFailure(of: peer, now: now, logger: logger) }
        noteBinding(report.isListening, now: now, logger: logger)
    }

    private mutating func noteRefusals(
        _ refusals: [MeshKeyReport.Refusal], now: UInt64, logger: Logger
    ) {
        guard !refusals.isEmpty || !saidAt.isEmpty else { return }
        saidAt = saidAt.filter { now < $0.value + Self.repetitionMilliseconds }
        for refusal in refusals where saidAt.count < Self.linesInAWhile {
            var subject = refusal
            subject.count = 0
            subject.lastMilliseconds = 0
            guard saidAt[subject] == nil,
                now < refusal.lastMilliseconds + Self.repetitionMilliseconds
            else { continue }
            saidAt[subject] = now
            var metadata: Logger.Metadata = [LogKeys.count: "\(refusal.count)"]
            if let key = refusal.publicKey { metadata[LogKeys.publicKey] = "\(key)" }
            if !refusal.address.isEmpty { metadata[LogKeys.address] = "\(refusal.address)" }
            switch refusal.reason {
            case .keyNotListed:
                logger.warning("A key that is not listed was refused", metadata: metadata)
            case .claimsToBe(let claimed):
                metadata[LogKeys.peer] = "\(claimed)"
                if let node = refusal.node { metadata[LogKeys.theirs] = "\(node)" }
                logger.error(
                    "A node claims another's number, and is not believed", metadata: metadata)
            }
        }
    }

    /// Whether a peer is worth a line. Refused sockets are made again and again, and each begins
    /// with no handshake: that is no news.
    private mutating func isNews(_ peer: MeshKeyReport.Peer, now: UInt64) -> Bool {
        var said = handshakesSaidAt[peer.node] ?? [:]
        defer { handshakesSaidAt[peer.node] = said }
        switch peer.handshake {
        case .none: return false
        case .succeeded:
            defer { said = [.succeeded: now] }
            return said[.succeeded] == nil
        case .refusedThere, .failed:
            said[.succeeded] = nil
            if let last = said[peer.handshake], now < last + Self.repetitionMilliseconds {
                return false
            }
            said[peer.handshake] = now
            return true
        }
    }

    private static func say(_ peer: MeshKeyReport.Peer, hasKeys: Bool, _ logger: Logger) {
        let metadata: Logger.Metadata = [LogKeys.peer: "\(peer.node)"]
        switch peer.handshake {
        case .none: break
        case .succeeded:
            if hasKeys { logger.info("A peer has proven its key", metadata: metadata) }
        case .refusedThere:
            logger.error("A peer does not list this node's key", metadata: metadata)
        case .failed where hasKeys:
            logger.warning(
                "The node at a peer's address has not proven the key listed for it",
                metadata: metadata)
        case .failed:
            logger.warning(
                "The node at a peer's address does not speak without keys", metadata: metadata)
        }
    }

    private mutating func noteFailure(
        of peer: MeshKeyReport.Peer, now: UInt64, logger: Logger
    ) {
        guard let failure = peer.failure else { return }
        if let last = failuresSaidAt[peer.node], now < last + Self.repetitionMilliseconds { return }
        failuresSaidAt[peer.node] = now
        logger.error(
            "The node cannot connect to a peer yet; it tries again",
            metadata: [LogKeys.peer: "\(peer.node)", LogKeys.error: "\(failure)"])
    }

    private mutating func noteBinding(_ isListening: Bool, now: UInt64, logger: Logger) {
        guard !isListening else {
            if isUnboundSaid { logger.notice("The mesh's endpoints are bound again") }
            unboundSince = nil
            isUnboundSaid = false
            return
        }
        let since = unboundSince ?? now
        unboundSince = since
        guard !isUnboundSaid, now >= since + Self.bindingMilliseconds else { return }
        isUnboundSaid = true
        logger.error("The mesh's endpoints cannot be bound again yet; the node tries again")
    }
}
