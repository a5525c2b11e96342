import Merge

/// Pulls: one a peer, each until its answer comes or its time is over.
extension PeerProgress {
    /// Whether the peer can be asked for anything.
    func isAvailable(now: UInt64, limits: Limits) -> Bool {
        isConfigured && isAgreed && isConnected(now: now, limits: limits)
            && !isQuarantined(now: now)
    }

    /// Whether it has something of its own that the vector does not cover.
    func isWriter(beyond vector: VersionVector) -> Bool {
        self.vector.entries.contains {
            $0.actor.node == node && $0.sequence > vector[$0.actor]
        }
    }

    /// Begins a pull of what the vector does not cover.
    mutating func beginPull(
        _ id: UInt64, beyond vector: VersionVector, now: UInt64, limits: Limits
    ) {
        pulling = Pulling(
            id: id, vector: vector, target: self.vector, durable: durable, askedAt: now,
            deadline: now + pullTimeout(limits))
    }

    /// Gives up a pull whose time is over.
    ///
    /// - Returns: whether it did.
    mutating func expirePull(now: UInt64, limits: Limits) -> Bool {
        guard let pulling, now >= pulling.deadline else { return false }
        expiredPull = pulling
        self.pulling = nil
        failures += 1
        noteLate()
        pullAllowedAt = now + limits.graceMilliseconds
        return true
    }

    /// Ends the pull that an answer belongs to; nil where it belongs to none.
    mutating func finishPull(_ id: UInt64, now: UInt64, limits: Limits) -> Pulling? {
        if let pulling, pulling.id == id {
            self.pulling = nil
            expiredPull = nil
            // A slow link keeps its long time-out, or every other page would be asked for twice.
            if now - pulling.askedAt < limits.pullTimeoutMilliseconds / 2 {
                failures = 0
                noteSoon()
            }
            return pulling
        }
        guard let expired = expiredPull, expired.id == id else { return nil }
        expiredPull = nil
        return expired
    }

    /// Lets others be asked first.
    mutating func delayPull(now: UInt64, limits: Limits) {
        pullAllowedAt = now + pullTimeout(limits)
        failures += 1
    }
}
