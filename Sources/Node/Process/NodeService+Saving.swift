// Saving through a node: counted, and acknowledged by as many nodes as the caller wants.

package import Coordinator
public import Merge
internal import NodeCore

extension NodeService {
    /// Saves, and waits until as many nodes have it on disk as wanted.
    ///
    /// - Parameters:
    ///   - request: what to save.
    ///   - acknowledgement: which nodes must have it before this returns.
    ///   - timeout: how long to wait for those others; the save itself is not bounded by it.
    /// - Throws: ``CoordinatorError`` where nothing was saved (or, with `outcomeUnknown`, perhaps);
    ///   ``NodeError``: `stopped` while the node stops, `tooFewNodes` where more nodes are wanted
    ///   than there are, both with nothing saved, and `acknowledgementTimeout`, where it is saved
    ///   here but not yet on enough others, whom the context names under `missing`.
    package func save(
        _ request: SaveRequest, acknowledgement: Acknowledgement,
        timeout: Duration = .seconds(10)
    ) async throws -> SaveResult {
        guard !isStopping else {
            throw NodeError(.stopped, "This node is stopping; save at another one")
        }
        let needed = acknowledgement.confirmationsNeeded(members: members.count)
        guard needed < members.count else {
            throw NodeError(
                .tooFewNodes,
                "\(needed + 1) nodes cannot acknowledge a save: the cluster has \(members.count)",
                context: ["members": "\(members.count)"])
        }
        let result = try await save(request)
        guard needed > 0, let dot = result.transaction else { return result }
        let missing = await waitForAcknowledgements(
            of: dot, level: acknowledgement, timeout: timeout)
        guard !missing.isEmpty else { return result }
        let names = missing.map(\.description).joined(separator: ", ")
        throw NodeError(
            .acknowledgementTimeout,
            "It is saved here as \(dot), but not acknowledged in time by enough nodes; "
                + "missing: \(names)",
            context: ["transaction": "\(dot)", "missing": names])
    }

    /// Waits until other nodes have a transaction on disk.
    ///
    /// - Parameters:
    ///   - dot: a transaction saved here.
    ///   - level: by how many nodes, this one among them, it must be known.
    ///   - timeout: how long to wait at the most.
    /// - Returns: who is missing, lowest first; empty where enough have it.
    public func waitForAcknowledgements(
        of dot: Dot, level: Acknowledgement, timeout: Duration
    ) async -> [NodeID] {
        let peers = members.filter { $0 != coordinator.node }
        let needed = level.confirmationsNeeded(members: members.count)
        guard needed > 0 else { return [] }
        // More than there are can never confirm, so there is nobody to wait for.
        guard needed <= peers.count else { return peers.isEmpty ? [coordinator.node] : peers }
        let handover = shared.handover
        let milliseconds = UInt64(min(max(0, timeout / .milliseconds(1)), 86_400_000))
        let outcome = await shared.acknowledgements.wait(
            for: .init(
                dot: dot, peers: peers, needed: needed,
                deadline: MonotonicClock.milliseconds + milliseconds),
            onWaiting: { handover.give(.awaited) })
        guard case .missing(let missing) = outcome else { return [] }
        counters.countUnacknowledged()
        return missing
    }
}
