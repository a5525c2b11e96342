internal import NIOCore
internal import NIOPosix

/// All connections of one proxy. Lives on the proxy's event loop.
///
/// Invariant: `open` holds exactly the connections accepted while the link was not cut and not
/// closed since.
final class ProxiedLinks {
    private let loop: any EventLoop
    private let targetHost: String
    private let targetPort: Int
    private var isCut = false
    private var faults: [LinkDirection: LinkFault] = [:]
    private var open: [ObjectIdentifier: ProxiedLink] = [:]
    private var acceptedCount: UInt64 = 0

    init(loop: any EventLoop, targetHost: String, targetPort: Int) {
        self.loop = loop
        self.targetHost = targetHost
        self.targetPort = targetPort
    }

    private func fault(_ direction: LinkDirection) -> LinkFault { faults[direction] ?? .none }

    /// Connects to the target for a connection that came; the future fails where it is to be closed.
    func accept(_ near: any Channel) -> EventLoopFuture<Void> {
        guard !isCut else { return loop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
        acceptedCount += 1
        let link = ProxiedLink(
            number: acceptedCount, towardsTarget: fault(.towardsTarget),
            fromTarget: fault(.fromTarget))
        open[ObjectIdentifier(link)] = link
        let bound = NIOLoopBound(link, eventLoop: loop)
        let forget = NIOLoopBound({ self.forget(link) }, eventLoop: loop)
        near.closeFuture.whenComplete { _ in forget.value() }
        do {
            try near.pipeline.syncOperations.addHandler(link.near)
        } catch {
            return loop.makeFailedFuture(error)
        }
        return ClientBootstrap(group: loop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { far in
                far.eventLoop.makeCompletedFuture {
                    try far.pipeline.syncOperations.addHandler(bound.value.far)
                }
            }
            .connect(host: targetHost, port: targetPort)
            .flatMapThrowing { far in
                // The link may have been cut while the target was being reached.
                guard !bound.value.isClosed else {
                    far.close(promise: nil)
                    throw ChannelError.ioOnClosedChannel
                }
            }
    }

    private func forget(_ link: ProxiedLink) {
        open[ObjectIdentifier(link)] = nil
        _ = link.close()
        link.near.link = nil
        link.far.link = nil
    }

    // MARK: - What happens to the link

    func cut() -> EventLoopFuture<Void> {
        isCut = true
        return closeAll(resetting: false)
    }

    func reset() -> EventLoopFuture<Void> { closeAll(resetting: true) }

    func heal() -> EventLoopFuture<Void> {
        isCut = false
        return set([.towardsTarget: .none, .fromTarget: .none])
    }

    func stall() -> EventLoopFuture<Void> {
        isCut = false
        var stalled: [LinkDirection: LinkFault] = [:]
        for direction in LinkDirection.allCases {
            stalled[direction] = fault(direction)
            stalled[direction]?.passage = .stalled
        }
        return set(stalled)
    }

    /// Sets what happens from now on; a direction that is not named keeps what it has.
    func set(_ changed: [LinkDirection: LinkFault]) -> EventLoopFuture<Void> {
        faults.merge(changed) { $1 }
        var closings: [EventLoopFuture<Void>] = []
        for link in inOrder {
            for (pump, direction) in [
                (link.near, LinkDirection.towardsTarget), (link.far, .fromTarget),
            ] {
                guard changed[direction] != nil else { continue }
                pump.setFault(fault(direction))
                if pump.hasLostBytes, fault(direction).passage != .lost {
                    closings += link.close(resetting: true)
                }
            }
            link.goOn()
        }
        return EventLoopFuture.andAllComplete(closings, on: loop)
    }

    private func closeAll(resetting: Bool) -> EventLoopFuture<Void> {
        let closings = inOrder.flatMap { $0.close(resetting: resetting) }
        return EventLoopFuture.andAllComplete(closings, on: loop)
    }

    private var inOrder: [ProxiedLink] { open.values.sorted { $0.number < $1.number } }
}
