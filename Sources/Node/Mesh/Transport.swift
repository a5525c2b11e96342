// The port to the network: frames out, frames in, no promises.
//
// A transport may drop, repeat, reorder and delay frames. Threading: every call is made on the one
// thread that polls; other threads ring the `wakeup`.

public import Merge

/// The two ways between nodes.
public enum MeshChannel: Hashable, Sendable {
    /// From one to all, without answers.
    case publish
    /// Between two, questions and answers.
    case exchange
}

/// A frame that came in.
public struct IncomingFrame: Sendable {
    /// The bytes, whole; at most as many as the transport's limit says.
    public var bytes: [UInt8]
    /// The sender. With keys this is proven; without, it is what the peer says.
    public var sender: NodeID
    /// The way it came.
    public var channel: MeshChannel
    /// Where an answer must go for a frame that the peer sent to our own endpoint; nil for others.
    public var route: ReplyRoute?

    /// Describes a frame.
    public init(bytes: [UInt8], sender: NodeID, channel: MeshChannel, route: ReplyRoute? = nil) {
        self.bytes = bytes
        self.sender = sender
        self.channel = channel
        self.route = route
    }
}

/// The way back along one connection that a peer made to us.
///
/// Two processes that claim one NodeID have two routes, so that both can hear of it.
public struct ReplyRoute: Hashable, Sendable {
    /// The node at the other end.
    public let node: NodeID
    let identity: [UInt8]

    /// Names a way back; what the identity means is the transport's own matter.
    public init(node: NodeID, identity: [UInt8]) {
        self.node = node
        self.identity = identity
    }
}

/// The fate of a frame that was to be sent.
public enum FrameOutcome: Hashable, Sendable {
    /// It is on its way; whether it arrives is not known.
    case sent
    /// It was dropped: the queue to that peer is full.
    case congested
    /// It was dropped: no connection leads to that peer now.
    case unreachable
}

/// A peer to connect to.
public struct MeshPeer: Hashable, Sendable {
    /// Its number.
    public var node: NodeID
    /// Where it publishes.
    public var publish: MeshEndpoint
    /// Where it takes questions.
    public var exchange: MeshEndpoint
    /// Its keys, at least one where this node has keys. A second one is listed while the peer goes
    /// over from one to the other; both are believed meanwhile.
    public var publicKeys: [CurvePublicKey]

    /// The greatest number of keys that a peer may have at a time.
    public static let maximumKeys = 4

    /// Describes a peer.
    public init(
        node: NodeID, publish: MeshEndpoint, exchange: MeshEndpoint,
        publicKeys: [CurvePublicKey] = []
    ) {
        self.node = node
        self.publish = publish
        self.exchange = exchange
        self.publicKeys = publicKeys
    }
}

/// The settings that a running mesh goes on with: its own keys, its peers, and theirs.
public struct MeshChange: Hashable, Sendable {
    /// This node's keys; nil for a mesh without CURVE, which a running one cannot become.
    public var keys: CurveKeys?
    /// All peers. Who is not among them is cut off.
    public var peers: [MeshPeer]

    /// Describes a change.
    public init(keys: CurveKeys?, peers: [MeshPeer]) {
        self.keys = keys
        self.peers = peers
    }
}

/// The counts of a transport since it began.
public struct TransportStatistics: Hashable, Sendable {
    /// Frames and bytes given to the caller.
    public var framesReceived = 0
    /// Bytes given to the caller.
    public var bytesReceived = 0
    /// Frames taken for sending; a published frame counts once.
    public var framesSent = 0
    /// Bytes taken for sending.
    public var bytesSent = 0
    /// Frames dropped because a queue was full.
    public var framesCongested = 0
    /// Frames dropped because no connection led to the peer.
    public var framesUnreachable = 0
    /// Incoming messages thrown away: not one frame, or not from whom they claim to be.
    public var framesRefused = 0
    /// Connections ended, for a peer made them hold more than the protocol needs, or made too many.
    public var connectionsEnded = 0
    /// Handshakes let in by the list of keys.
    public var handshakesAdmitted = 0
    /// Handshakes refused by the list of keys.
    public var handshakesRefused = 0

    /// Begins at nothing.
    public init() {}
}

/// Carries frames between nodes. See the head of this file for what it may do to them.
public protocol Transport: AnyObject {
    /// Ends a poll early; the only part that other threads may touch.
    var wakeup: Wakeup { get }
    /// The counts so far.
    var statistics: TransportStatistics { get }

    /// Waits for frames, the wake-up or the time-out, whichever comes first.
    ///
    /// - Parameter timeoutMilliseconds: 0 looks without waiting; less than 0 waits for ever.
    /// - Returns: what came in, bounded in frames and bytes; the rest waits for the next call.
    /// - Throws: an error only where the transport itself is broken, never for a peer's fault.
    func poll(timeoutMilliseconds: Int) throws -> [IncomingFrame]

    /// Sends a frame to every peer that listens.
    ///
    /// - Throws: ``NodeError`` with `frameTooLarge`.
    @discardableResult func publish(_ frame: [UInt8]) throws -> FrameOutcome

    /// Sends a frame to a peer over the connection that we made to it.
    ///
    /// - Throws: ``NodeError`` with `frameTooLarge`.
    @discardableResult func send(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome

    /// Sends a frame along a connection that the peer made to us.
    ///
    /// - Throws: ``NodeError`` with `frameTooLarge`.
    @discardableResult func reply(_ frame: [UInt8], along route: ReplyRoute) throws -> FrameOutcome

    /// The way back along the newest connection on which that peer has sent something.
    func route(to node: NodeID) -> ReplyRoute?

    /// Connects to a peer, or to its new addresses where it is connected already.
    func connect(to peer: MeshPeer) throws

    /// Ends the connections to a node that is not a member any more, those that it made too, and
    /// takes its keys off the list.
    ///
    /// - Parameter keys: under these it may still ask over the exchange, and learn that it has
    ///   departed; published frames it does not get.
    func disconnect(from node: NodeID, hearing keys: [CurvePublicKey]) throws

    /// Goes on with other keys and peers.
    ///
    /// Connections under keys that are not listed any more are ended, on whichever side they were
    /// made; others may be ended and made again on the way.
    ///
    /// - Throws: ``NodeError`` with `configurationInvalid`, and nothing has changed, where a mesh
    ///   would begin or end to use keys or a peer has none; others where the transport is broken.
    func update(_ change: MeshChange) throws

    /// Where the keys stand, for people.
    var keyReport: MeshKeyReport { get }
}

extension Transport {
    /// Connects to each peer again; for transports that know no keys.
    public func update(_ change: MeshChange) throws {
        for peer in change.peers { try connect(to: peer) }
    }

    /// Says that there are no keys.
    public var keyReport: MeshKeyReport { MeshKeyReport() }

    /// Sends a frame to a node along the newest connection that it made to us.
    ///
    /// - Throws: ``NodeError`` with `frameTooLarge`.
    @discardableResult
    public func reply(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome {
        guard let route = route(to: node) else { return .unreachable }
        return try reply(frame, along: route)
    }

    /// Sends a frame to a node by the connection we made, or else by one that it made to us.
    ///
    /// - Throws: ``NodeError`` with `frameTooLarge`.
    @discardableResult
    public func deliver(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome {
        let outcome = try send(frame, to: node)
        return outcome == .unreachable ? try reply(frame, to: node) : outcome
    }
}
