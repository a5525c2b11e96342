package import Merge
package import Replication

/// An event that has happened; told to ``NodeCore/handle(_:now:)``.
package enum NodeInput: Sendable {
    /// The sockets are bound and commits are observed. The first input, given once.
    ///
    /// `peers` are the nodes the shell connects to.
    case started(peers: [NodeID], wallMilliseconds: UInt64)
    /// Time passes; to be given every 50 to 100 ms.
    ///
    /// `awaited` are the peers whose acknowledgement somebody waits for.
    case tick(wallMilliseconds: UInt64, awaited: [NodeID])
    /// A frame came, from whom the socket says: see
    /// ``Replicator``'s ``Input/messageReceived(bytes:from:over:now:)``.
    ///
    /// `isQuestion` says that it came over a connection that the peer made to this node's exchange.
    case frame([UInt8], from: NodeID?, over: Channel, isQuestion: Bool)
    /// Local saves are durable, all of one group commit, in order of their sequences.
    case committed([EncodedTransaction], StoreState)
    /// The outcome of a job.
    case answered(StoreJob, Result<StoreOutcome, any Error>)
    /// Somebody waits for these peers' acknowledgements from now on.
    case awaited([NodeID])
    /// An operator ends all quarantines.
    case quarantinesLifted
}

/// An action of the shell. Actions of one input are carried out in their order.
package enum NodeAction: Sendable {
    /// Send a frame to all who listen.
    case publish([UInt8])
    /// Send a frame over the connection to a peer's exchange, and tell
    /// ``NodeCore/noteSending(to:isSent:)`` whether there was one.
    case send([UInt8], to: NodeID)
    /// Send a frame to a peer along the connection that it made to this node.
    case reply([UInt8], to: NodeID)
    /// The other members are these now: connect to them.
    case connect(to: [NodeID])
    /// Change how the store takes saves, at once; see ``StoreSetting/set(in:)``.
    case set(StoreSetting)
    /// Do a job after so many milliseconds, behind those that its lane was given before, and answer
    /// with ``NodeInput/answered(_:_:)``.
    case perform(StoreJob, after: UInt64)
    /// Tell people.
    case tell(NodeNews)
    /// End this run. What comes after it is of no account.
    case end(NodeEnding)
}

/// How the store takes saves.
package enum StoreSetting: Hashable, Sendable {
    /// It lets them through, or refuses them because nobody has vouched for it.
    case saving(isAllowed: Bool)
    /// It refuses them while its clock is far off.
    case clock(isOff: Bool)
    /// It refuses them because its node is not a member any more.
    case departed
}

/// An event in a node that people, or a simulation's checkers, want to know.
package enum NodeNews: Hashable, Sendable {
    /// Something is wrong.
    case alarm(Alarm)
    /// Frames of a peer are ignored for a while.
    case quarantined(NodeID, reason: String)
    /// All that the vector covers is stable.
    case stable(VersionVector)
    /// Members refuse this incarnation, because an elder one of its node is alive.
    case refused
    /// Saves that can never be applied wait to be kept by the store.
    case orphaned([Dot])
    /// There was no room to keep these.
    case orphansLeftOut([Dot])
}

/// Why a run ends by itself.
package enum NodeEnding: Sendable {
    /// Another live process uses this node's number, and was there before.
    case numberInUse
    /// Another store of this node is or was in use.
    case otherStore
    /// The cluster knows a later incarnation of this node. `hasMet` says that its process lives.
    case laterIncarnation(UInt64, hasMet: Bool)
    /// A sound copy of a member's store is there, to take this store's place.
    case copyReady
    /// The store is damaged.
    case failed(any Error)
}
