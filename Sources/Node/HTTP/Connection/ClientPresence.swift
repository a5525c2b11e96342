// Whether the client of a connection is still there.

internal import NIOCore
internal import Synchronization

/// Whether the client of a connection is still there. Thread-safe.
///
/// A client that closes its sending side counts as gone: over TCP that looks the same.
final class ClientPresence: Sendable {
    private struct State {
        var isGone = false
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private let gone = Atomic(false)
    private let state = Mutex(State())

    /// Whether it has gone; cheap enough to be asked thousands of times a second.
    var isGone: Bool { gone.load(ordering: .relaxed) }

    /// Has something done once the client goes, or at once where it has gone.
    ///
    /// - Returns: what ``forget(_:)`` takes.
    func onLeaving(_ action: @escaping @Sendable () -> Void) -> Int {
        let id = state.withLock { state -> Int? in
            state.next += 1
            guard !state.isGone else { return nil }
            state.actions[state.next] = action
            return state.next
        }
        if id == nil { action() }
        return id ?? 0
    }

    /// Forgets what was to be done.
    func forget(_ id: Int) { state.withLock { _ = $0.actions.removeValue(forKey: id) } }

    /// The client has gone.
    func leave() {
        let actions = state.withLock { state in
            state.isGone = true
            gone.store(true, ordering: .relaxed)
            defer { state.actions = [:] }
            return Array(state.actions.values)
        }
        for action in actions { action() }
    }
}

/// The clients of all open connections. Thread-safe.
final class ConnectedClients: Sendable {
    private let clients = Mutex<[ObjectIdentifier: ClientPresence]>([:])

    /// The client of a connection; one who never goes where the connection is not known.
    func client(of channel: any Channel) -> ClientPresence {
        clients.withLock { $0[ObjectIdentifier(channel)] } ?? ClientPresence()
    }

    fileprivate func add(_ client: ClientPresence, of channel: any Channel) {
        clients.withLock { $0[ObjectIdentifier(channel)] = client }
    }

    fileprivate func remove(_ channel: any Channel) {
        clients.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(channel)) }
    }
}

/// Sees in a connection's pipeline that its client goes.
final class ClientWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let clients: ConnectedClients
    private let client = ClientPresence()

    init(_ clients: ConnectedClients) { self.clients = clients }

    func handlerAdded(context: ChannelHandlerContext) {
        clients.add(client, of: context.channel)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        clients.remove(context.channel)
        client.leave()
    }

    func channelInactive(context: ChannelHandlerContext) {
        client.leave()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { client.leave() }
        context.fireUserInboundEventTriggered(event)
    }
}

/// The client of a request has gone: nobody is there to read an answer.
struct ClientGone: Error {}
