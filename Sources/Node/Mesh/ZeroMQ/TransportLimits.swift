// Every bound of the ZeroMQ transport, with its reason.

/// The bounds of a ``ZeroMQTransport``.
public struct TransportLimits: Hashable, Sendable {
    /// The greatest frame, in bytes, 1 KiB...64 MiB; libzmq closes a connection that brings more.
    /// Must be at least the protocol's own `Limits.frameBytes`: a page of 4 MiB with its overhead.
    public var frameBytes = (4 << 20) + (512 << 10)
    /// The greatest frame that a peer may publish, in bytes; libzmq closes a connection that brings
    /// more. Saves are published up to 256 KiB; heads of a cluster with as many actors as may be
    /// are a megabyte.
    public var publishedFrameBytes = 2 << 20
    /// How many published frames may wait for one subscriber. Publishing is a hint, so what does not
    /// fit is dropped and pulled later. 96 frames of 256 KiB are 24 MiB for a peer that has stopped,
    /// until its connection is taken for dead, or one that reads slowly.
    public var publishQueueFrames: Int32 = 96
    /// How many of a peer's published frames may wait to be looked at: 16 MiB. What is more waits at
    /// the peer.
    public var subscribedFrames: Int32 = 8
    /// How many answers may wait for one peer. One pull is answered at a time; this is for a peer
    /// that asks and does not read: 36 MiB of pages, which with what is published to it are no more
    /// than 64 MiB.
    public var answerQueueFrames: Int32 = 8
    /// How many questions may wait for one peer. They are ours, and short.
    public var questionQueueFrames: Int32 = 64
    /// How many frames of each direction of an exchange with one peer may wait to be looked at:
    /// 18 MiB each for a peer that floods.
    public var exchangedFrames: Int32 = 4
    /// How many bytes that came over one connection the library may hold before the connection is
    /// ended. A peer that keeps to the protocol has four frames of 4.5 MiB waiting at the most, one
    /// being read and one being taken. libzmq bounds the parts of a message and not the message.
    public var heldBytes = 32 << 20
    /// As `heldBytes`, of all connections to one endpoint together; what is asked there is short. In
    /// memory it may be twice as much.
    public var heldBytesTogether = 32 << 20
    /// As `heldBytes` and `heldBytesTogether` where others ask and there are no keys; no longer question
    /// is taken then. In memory it may be 32 times as much, 40 MiB. Heads of a cluster with as many actors
    /// as may be are a megabyte.
    public var unkeyedBytes = 5 << 18
    /// As `heldBytes` where others subscribe: the handshake and one subscription to everything are
    /// 600 bytes with keys and 300 without. The library makes 2 KiB of each topic that is not
    /// like the others, and looks through all of them when a subscriber goes.
    public var subscriptionBytes = 1_024
    /// How many connections each of the two endpoints may have that have lasted a handshake. Members
    /// have one each, for moments two; each costs some tens of kilobytes (by estimate). Above it the
    /// oldest of whichever address has most are ended.
    public var connections = 512
    /// How many that have not, which anybody may make; they end by themselves in `handshakeMilliseconds`.
    public var handshakes = 2_048
    /// How many connections of one node the router keeps: the one that it uses and one that is half
    /// dead, or its double's. For each that reads no answers 36 MiB may wait.
    public var connectionsOfNode = 2
    /// How many connections the library may have forgotten to close before those to an endpoint are
    /// made again; each may keep one frame. See `ConnectionWatch`.
    public var forgottenConnections = 8
    /// How many frames one poll takes from one socket, so that no peer starves another.
    public var framesPerSocketAndPoll = 64
    /// How many bytes one poll takes altogether before it returns: of what peers ask of us half at the
    /// most, and of the rest from another peer first each time.
    public var bytesPerPoll = 8 << 20
    /// How many nodes' ways back are remembered. Members are far fewer; without keys anyone may
    /// claim any number, and the one heard longest ago is forgotten first.
    public var rememberedRoutes = 1024
    /// How many sockets the library may hold, 1...65535. A link has 6, with those that tell of its
    /// handshakes, and 256 peers may have 4 keys each; twice that and more, for the library closes
    /// sockets in its own time.
    public var sockets: Int32 = 16_384
    /// How long a handshake may take, in milliseconds; it ties up a descriptor meanwhile.
    public var handshakeMilliseconds: Int32 = 3000
    /// How long a connection may be quiet before the system asks the other machine whether it still
    /// has it, and how long it waits between questions, in seconds.
    ///
    /// libzmq's own heartbeats are not used: where its thread has stopped reading a connection, since
    /// as many frames wait as may, and the connection breaks, the next heartbeat ends the process.
    /// A peer that floods and hangs up could do that at will, and so could a node's own pause.
    public var keepaliveSeconds: Int32 = 1
    /// After how many questions without an answer a connection is taken for dead.
    public var keepaliveQuestions: Int32 = 5
    /// How long what was sent may not be taken by the other end, in milliseconds, before the
    /// connection is taken for dead; making one may take as long.
    public var connectionTimeoutMilliseconds: Int32 = 5000
    /// The first wait before connecting again, in milliseconds; it doubles up to `reconnectMaximum`.
    public var reconnectMilliseconds: Int32 = 50
    /// The first wait before connecting again to a peer that has two keys, in milliseconds: one of
    /// the two is always refused, and for as long as the change of keys takes.
    public var reconnectOfManyMilliseconds: Int32 = 500
    /// How long after a refusal a peer is tried again, in milliseconds: by then it may list our key.
    public var refusedMilliseconds: Int32 = 1000
    /// After how long without a handshake the sockets to a peer are made again, in milliseconds.
    /// The library tries again by itself, but not after everything that a foreign program may
    /// answer.
    public var renewalMilliseconds: Int32 = 5000
    /// The longest wait before connecting again, in milliseconds.
    public var reconnectMaximumMilliseconds: Int32 = 5000

    /// The defaults.
    public init() {}
}
