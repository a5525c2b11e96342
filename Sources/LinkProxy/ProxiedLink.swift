internal import Glibc
internal import NIOCore

/// One connection and its continuation to the target. Lives on the proxy's event loop.
final class ProxiedLink {
    /// The how manieth connection of its proxy it is.
    let number: UInt64
    /// Reads from the side that connected.
    let near: PumpHandler
    /// Reads from the target.
    let far: PumpHandler
    private(set) var isClosed = false

    init(number: UInt64, towardsTarget: LinkFault, fromTarget: LinkFault) {
        self.number = number
        near = PumpHandler(towardsTarget, connection: number * 2)
        far = PumpHandler(fromTarget, connection: number * 2 + 1)
        near.link = self
        far.link = self
    }

    func other(of pump: PumpHandler) -> PumpHandler { pump === near ? far : near }

    var mayPass: Bool { !isClosed && near.isActive && far.isActive }

    /// Passes on what waits, and asks both sides for more, where it is wanted.
    func goOn() {
        near.passOn()
        far.passOn()
        near.readIfWanted()
        far.readIfWanted()
    }

    /// Closes both sides; gives what completes when they are closed.
    ///
    /// - Parameter resetting: whether both ends are to see a reset (RST) and not an end.
    func close(resetting: Bool = false) -> [EventLoopFuture<Void>] {
        isClosed = true
        let channels = [near.channel, far.channel].compactMap(\.self)
        if resetting {
            // A socket that lingers for no time is reset by its closing. Both are prepared before
            // either is closed, because each closes the other.
            for channel in channels {
                let socket = channel as? any SocketOptionProvider
                _ = socket?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            }
        }
        for channel in channels { channel.close(promise: nil) }
        return channels.map(\.closeFuture)
    }
}
