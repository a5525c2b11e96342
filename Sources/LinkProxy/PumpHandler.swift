internal import NIOCore

/// One side of a link: hands what it reads to the other side, with the faults of its direction.
///
/// Back-pressure: it reads again only when the other side is writable and little waits here, so
/// that one read, ``waitingBytes`` and one socket's buffer are all that is kept.
final class PumpHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Nothing is read while more bytes than this wait: enough for a tenth of a second of a fast
    /// loopback connection, little enough for hundreds of connections.
    private static let waitingBytes = 256 * 1024

    /// Nil once the connection is forgotten, or link and pumps would keep each other alive.
    var link: ProxiedLink?
    /// Whether bytes of this connection have vanished, so that what follows would make no sense.
    private(set) var hasLostBytes = false

    private let connection: UInt64
    private var fault: LinkFault
    private var flipper: ByteFlipper?
    /// The bytes read and not yet handed over, oldest first, and when they may be.
    private var waiting = CircularBuffer<(readyAt: NIODeadline, bytes: ByteBuffer)>()
    private var waitingCount = 0
    /// When a narrow pipe takes its next portion.
    private var nextPortionAt = NIODeadline.now()
    private var isAwakened = false
    private var context: ChannelHandlerContext?
    private var isReading = false

    init(_ fault: LinkFault, connection: UInt64) {
        self.fault = fault
        self.connection = connection
        flipper = fault.flips.map { ByteFlipper($0, connection: connection) }
    }

    func setFault(_ fault: LinkFault) {
        if fault.flips != self.fault.flips {
            flipper = fault.flips.map { ByteFlipper($0, connection: connection) }
        }
        self.fault = fault
    }

    var channel: (any Channel)? { context?.channel }
    var isActive: Bool { context?.channel.isActive ?? false }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) { link?.goOn() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        guard fault.passage != .lost else {
            hasLostBytes = true
            return
        }
        flipper?.apply(to: &bytes)
        waitingCount += bytes.readableBytes
        waiting.append((.now() + .milliseconds(Int64(fault.delayMilliseconds)), bytes))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        passOn()
        readIfWanted()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable, let other = link?.other(of: self) else { return }
        other.passOn()
        other.readIfWanted()
    }

    func channelInactive(context: ChannelHandlerContext) { closeAll() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { closeAll() }

    func readIfWanted() {
        guard !isReading, let link, link.mayPass, fault.passage != .stalled, let context,
            waitingCount < Self.waitingBytes, link.other(of: self).channel?.isWritable == true
        else { return }
        isReading = true
        context.read()
    }

    // MARK: - Handing over

    /// Hands over what may pass now, and comes back when more may.
    func passOn() {
        guard let link, link.mayPass, fault.passage == .open, !waiting.isEmpty,
            let target = link.other(of: self).context
        else { return }
        let now = NIODeadline.now()
        var portion = Int.max
        if let trickle = fault.trickle {
            portion = now >= nextPortionAt ? trickle.bytes : 0
            if portion > 0 { nextPortionAt = now + .milliseconds(Int64(trickle.milliseconds)) }
        }
        var hasWritten = false
        while portion > 0, target.channel.isWritable, let first = waiting.first,
            first.readyAt <= now
        {
            var bytes = waiting.removeFirst().bytes
            let count = min(portion, bytes.readableBytes)
            if let piece = bytes.readSlice(length: count), count > 0 {
                target.write(wrapOutboundOut(piece), promise: nil)
                hasWritten = true
            }
            if bytes.readableBytes > 0 { waiting.prepend((first.readyAt, bytes)) }
            portion -= count
            waitingCount -= count
        }
        if hasWritten { target.flush() }
        // A full socket tells by itself when it takes more.
        if target.channel.isWritable { awakenLater() }
    }

    /// Arranges for another look when time lets more bytes pass.
    private func awakenLater() {
        guard !isAwakened, let first = waiting.first, let context else { return }
        let next = fault.trickle == nil ? first.readyAt : max(first.readyAt, nextPortionAt)
        isAwakened = true
        context.eventLoop.assumeIsolated().scheduleTask(deadline: next) {
            self.isAwakened = false
            self.passOn()
            self.readIfWanted()
        }
    }

    /// One side has ended, so both do; what was not yet handed over is lost.
    private func closeAll() {
        _ = link?.close()
    }
}
