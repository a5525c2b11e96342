// The ZAP handler: only listed keys come in, and every key stands for one node.
//
// libzmq asks over `inproc://zeromq.zap.01` for each handshake and waits for the answer; the
// transport polls this socket with the others. Threading: belongs to the transport's thread.

internal import CZeroMQ
internal import Merge

/// Decides who may connect.
final class Gatekeeper {
    /// What one look at the socket led to.
    enum Decision {
        case nothing, admitted, refused
    }

    let socket: ZeroMQSocket
    private var nodes: [CurvePublicKey: NodeID] = [:]
    private var keys: [NodeID: CurvePublicKey] = [:]

    /// `ZMQ_ZAP_ENFORCE_DOMAIN`. The header hides it among the drafts, the library has it.
    private static let enforceDomain: Int32 = 93
    private static let domain = "tributary"

    init(in context: ZeroMQContext) throws(ZeroMQError) {
        socket = try ZeroMQSocket(.reply, in: context)
        _ = try socket.bind("inproc://zeromq.zap.01")
    }

    /// Lets a key in, as that node.
    func admit(_ key: CurvePublicKey, as node: NodeID) {
        forget(node)
        nodes[key] = node
        keys[node] = key
    }

    /// Takes a node's key off the list; frames on connections it still has are refused.
    func forget(_ node: NodeID) {
        guard let key = keys.removeValue(forKey: node) else { return }
        if nodes[key] == node { nodes[key] = nil }
    }

    /// Whether the name that was given to a peer in its handshake is the key of that node, still.
    func proves(_ user: String?, is node: NodeID) -> Bool {
        guard let user, let key = keys[node] else { return false }
        return key.text == user && nodes[key] == node
    }

    /// Answers one handshake, if one waits.
    ///
    /// The request: version, request, domain, address, identity, mechanism, key. The answer:
    /// version, request, status, text, the name of the peer, metadata.
    func answerOne() throws(ZeroMQError) -> Decision {
        guard let request = try socket.receiveMessage(limit: 7) else { return .nothing }
        let parts = request.parts.map(\.bytes)
        var key: CurvePublicKey?
        if parts.count == 7, !request.excessive, parts[0].elementsEqual("1.0".utf8),
            parts[2].elementsEqual(Self.domain.utf8), parts[5].elementsEqual("CURVE".utf8)
        {
            key = CurvePublicKey(binary: parts[6]).flatMap { nodes[$0] == nil ? nil : $0 }
        }
        let answer: [[UInt8]] = [
            Array("1.0".utf8), parts.count > 1 ? parts[1] : [],
            Array((key == nil ? "400" : "200").utf8),
            Array((key == nil ? "this key is not listed" : "OK").utf8),
            Array((key?.text ?? "").utf8),
        ]
        for part in answer { _ = try socket.send(part, more: true) }
        _ = try socket.send([])
        return key == nil ? .refused : .admitted
    }

    /// Makes a socket take CURVE only, and only after asking this handler.
    static func guardServer(_ socket: ZeroMQSocket, _ keys: CurveKeys) throws(ZeroMQError) {
        try socket.set(ZMQ_CURVE_SERVER, 1)
        try socket.set(ZMQ_CURVE_SECRETKEY, text: keys.secret)
        try socket.set(ZMQ_ZAP_DOMAIN, text: domain)
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
