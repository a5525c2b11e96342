// The ZAP handler: only listed keys come in, and every key stands for one node.
//
// The key of a node that others have retired opens the exchange alone: there it may ask, and learns
// that it is not a member any more, which it would never hear otherwise. The replicator answers it
// nothing else.
//
// libzmq asks over `inproc://zeromq.zap.01` for each handshake and waits for the answer; the
// transport polls this socket with the others. It asks only once for a connection. So taking a key
// off the list must also end the connections that it has opened (ZeroMQTransport+Binding.swift).
// Threading: belongs to the transport's thread.

internal import CZeroMQ
internal import Merge

/// Decides who may connect.
final class Gatekeeper {
    /// The outcome of one look at the socket.
    enum Decision {
        case nothing
        case admitted
        /// The key, where one was shown, and where it came from.
        case refused(CurvePublicKey?, address: String)
    }

    /// The socket that is bound here; it is the ZAP domain.
    enum Entrance: String {
        case publish = "tributary.publish"
        case exchange = "tributary.exchange"
    }

    let socket: ZeroMQSocket
    /// The owner of each key, by the key's text.
    private var nodes: [String: NodeID] = [:]
    private var keys: [NodeID: [CurvePublicKey]] = [:]
    /// The nodes that are not members any more, by their keys' texts.
    private var departed: [String: NodeID] = [:]

    /// `ZMQ_ZAP_ENFORCE_DOMAIN`. The header hides it among the drafts, the library has it.
    private static let enforceDomain: Int32 = 93
    /// The longest address that is kept for people to read; IPv6 with a zone is shorter.
    private static let addressBytes = 64

    init(in context: ZeroMQContext) throws(ZeroMQError) {
        socket = try ZeroMQSocket(.reply, in: context)
        _ = try socket.bind("inproc://zeromq.zap.01")
    }

    /// Lets some keys in as that node, and none that it had before.
    ///
    /// - Returns: whether a key was withdrawn, whose connections must be ended now.
    func admit(_ admitted: [CurvePublicKey], as node: NodeID) -> Bool {
        let withdrawn = (keys[node] ?? []).filter { !admitted.contains($0) }
        for key in withdrawn where nodes[key.text] == node { nodes[key.text] = nil }
        var isTaken = !withdrawn.isEmpty
        for key in admitted {
            // One key never belongs to two nodes: the node named last has it, and the other's ends.
            if let other = nodes[key.text], other != node {
                keys[other]?.removeAll { $0 == key }
                isTaken = true
            }
            nodes[key.text] = node
        }
        keys[node] = admitted.isEmpty ? nil : admitted
        return isTaken
    }

    /// Takes a node's keys off the list.
    ///
    /// - Returns: whether there were any, whose connections must be ended now.
    func forget(_ node: NodeID) -> Bool { admit([], as: node) }

    /// Lets keys of a node that is not a member any more in at the exchange.
    func hear(_ keys: [CurvePublicKey], ofDeparted node: NodeID) {
        for key in keys { departed[key.text] = node }
    }

    /// The node whose key the name is that was given to a peer in its handshake; nil for none now.
    func node(ofUser user: String?) -> NodeID? { user.flatMap { nodes[$0] ?? departed[$0] } }

    /// Answers one handshake, if one waits.
    ///
    /// The request: version, request, domain, address, identity, mechanism, key. The answer:
    /// version, request, status, text, the name of the peer, metadata.
    func answerOne() throws(ZeroMQError) -> Decision {
        guard let request = try socket.receiveMessage(limit: 7) else { return .nothing }
        let parts = request.parts.map(\.bytes)
        var shown: CurvePublicKey?
        if parts.count == 7, !request.excessive, parts[0].elementsEqual("1.0".utf8),
            parts[5].elementsEqual("CURVE".utf8)
        {
            shown = CurvePublicKey(binary: parts[6])
        }
        let entrance =
            parts.count > 2 ? Entrance(rawValue: String(decoding: parts[2], as: UTF8.self)) : nil
        let key = shown.flatMap { opens($0, entrance) ? $0 : nil }
        let answer: [[UInt8]] = [
            Array("1.0".utf8), parts.count > 1 ? parts[1] : [],
            Array((key == nil ? "400" : "200").utf8),
            Array((key == nil ? "this key is not listed" : "OK").utf8),
            Array((key?.text ?? "").utf8),
        ]
        for part in answer { _ = try socket.send(part, more: true) }
        _ = try socket.send([])
        guard key == nil else { return .admitted }
        let address = parts.count > 3 ? parts[3].prefix(Self.addressBytes) : []
        return .refused(shown, address: String(decoding: address, as: UTF8.self))
    }

    private func opens(_ key: CurvePublicKey, _ entrance: Entrance?) -> Bool {
        switch entrance {
        case .publish: nodes[key.text] != nil
        case .exchange: nodes[key.text] != nil || departed[key.text] != nil
        case nil: false
        }
    }

    /// Makes a socket take CURVE only, and only after asking this handler.
    static func guardServer(
        _ socket: ZeroMQSocket, _ keys: CurveKeys, at entrance: Entrance
    ) throws(ZeroMQError) {
        try socket.set(ZMQ_CURVE_SERVER, 1)
        try socket.set(ZMQ_CURVE_SECRETKEY, text: keys.secret)
        try socket.set(ZMQ_ZAP_DOMAIN, text: entrance.rawValue)
        try socket.set(enforceDomain, 1)
    }

    /// Makes a socket prove itself with its own keys to the holder of another's.
    static func introduceClient(
        _ socket: ZeroMQSocket, _ keys: CurveKeys, to server: CurvePublicKey
    ) throws(ZeroMQError) {
        try socket.set(ZMQ_CURVE_SERVERKEY, text: server.text)
        try socket.set(ZMQ_CURVE_PUBLICKEY, text: keys.publicKey.text)
        try socket.set(ZMQ_CURVE_SECRETKEY, text: keys.secret)
    }
}
