package import Merge

/// A message with who says it, to which cluster.
package struct Envelope: Hashable, Sendable {
    /// The cluster's name.
    package var cluster: String
    /// The sender, by its own account.
    package var sender: NodeID
    /// The message.
    package var message: Message

    /// Addresses a message.
    package init(cluster: String, sender: NodeID, message: Message) {
        self.cluster = cluster
        self.sender = sender
        self.message = message
    }
}

/// Why a frame is no message for us.
package enum MessageFailure: Error, Hashable, Sendable {
    /// It is damaged, or no frame at all.
    case undecodable(DecodingFailure)
    /// It is whole, but of another revision of the protocol.
    case otherRevision(UInt64, sender: NodeID)
    /// It is whole, but for another cluster.
    case otherCluster(String, sender: NodeID)
}

/// The bytes of a message: one deterministic CBOR array
///
///     [revision, cluster, sender, kind, body, checksum]
///
/// In every revision there will be, the first three and the checksum stay as they are: eight
/// bytes, big-endian, over all bytes before its own head. So damage does not pass for difference.
extension Envelope {
    /// The longest cluster name accepted, in bytes of UTF-8.
    package static let clusterNameBytes = 255
    private static let checksumBytes = 9

    /// The frame.
    ///
    /// - Parameter beginnings: by which heads name of their vector its frontier alone; nil to name all.
    package func encoded(telling beginnings: Beginnings? = nil) -> [UInt8] {
        var writer = CBORWriter(capacity: 64 + cluster.utf8.count + message.sizeEstimate)
        writer.beginArray(6)
        writer.write(Message.revision)
        writer.write(cluster)
        writer.write(UInt64(sender.rawValue))
        writer.write(message.kind)
        message.write(to: &writer, telling: beginnings)
        let checksum = Transaction.checksum(writer.bytes)
        writer.write(withUnsafeBytes(of: checksum.bigEndian) { Array($0) })
        return writer.bytes
    }

    /// Reads a frame; total: whatever the bytes are, it gives a message or throws.
    ///
    /// - Parameters:
    ///   - cluster: the only cluster whose messages are accepted.
    ///   - beginnings: those that are known here, which complete the vectors of heads.
    /// - Throws: ``MessageFailure``.
    package static func decode(
        _ bytes: [UInt8], cluster: String, limits: Limits = Limits(),
        beginnings: Beginnings = Beginnings()
    ) throws(MessageFailure) -> Envelope {
        do throws(DecodingFailure) {
            try verifyChecksum(bytes, limits: limits)
        } catch { throw .undecodable(error) }
        var reader = CBORReader(bytes)
        let head: (revision: UInt64, cluster: String, sender: NodeID)
        do throws(DecodingFailure) {
            head = try decodeHead(&reader)
        } catch { throw .undecodable(error) }
        guard head.revision == Message.revision else {
            throw .otherRevision(head.revision, sender: head.sender)
        }
        // By bytes: Swift's own comparison holds differently composed names for equal.
        guard head.cluster.utf8.elementsEqual(cluster.utf8) else {
            throw .otherCluster(head.cluster, sender: head.sender)
        }
        do throws(DecodingFailure) {
            let kind = try reader.unsigned()
            let message = try Message.read(
                kind: kind, from: &reader, limits: limits, beginnings: beginnings)
            guard try reader.data().count == 8 else {
                throw DecodingFailure("a checksum has 8 bytes", offset: reader.offset)
            }
            try reader.finish()
            return Envelope(cluster: head.cluster, sender: head.sender, message: message)
        } catch { throw .undecodable(error) }
    }

    private static func decodeHead(
        _ reader: inout CBORReader
    ) throws(DecodingFailure) -> (revision: UInt64, cluster: String, sender: NodeID) {
        try reader.array(exactly: 6)
        let revision = try reader.unsigned()
        let cluster = try reader.text()
        guard cluster.utf8.count <= clusterNameBytes else {
            throw DecodingFailure("a cluster's name is too long", offset: reader.offset)
        }
        return (revision, cluster, try reader.node())
    }

    private static func verifyChecksum(
        _ bytes: [UInt8], limits: Limits
    ) throws(DecodingFailure) {
        guard bytes.count <= limits.frameBytes else {
            throw DecodingFailure("the frame is too long", offset: limits.frameBytes)
        }
        let end = bytes.count - checksumBytes
        guard end > 0, bytes[end] == 0x48 else {
            throw DecodingFailure("the frame has no checksum", offset: max(end, 0))
        }
        var claimed: UInt64 = 0
        for byte in bytes[(end + 1)...] { claimed = claimed << 8 | UInt64(byte) }
        guard checksum(bytes, upTo: end) == claimed else {
            throw DecodingFailure("the checksum does not fit", offset: end)
        }
    }

    /// ``Transaction/checksum(_:)`` of the first `end` bytes, without copying them.
    private static func checksum(_ bytes: [UInt8], upTo end: Int) -> UInt64 {
        var hasher = StableHasher(seed: 2)
        // The buffer lives as long as the closure, and `end` is within it by the caller's guard.
        bytes.withUnsafeBytes {
            hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0[..<end]))
        }
        return hasher.finalize().0
    }
}

extension Message {
    fileprivate var kind: UInt64 {
        switch self {
        case .heads: 0
        case .hello: 1
        case .notification: 2
        case .announcement: 3
        case .pull: 4
        case .page: 5
        case .piece: 6
        case .models: 7
        case .transferPull: 8
        case .transferPart: 9
        }
    }

    /// About how many bytes the body takes, so that the frame is set aside at once.
    fileprivate var sizeEstimate: Int {
        switch self {
        case .heads(let heads), .hello(let heads):
            100 + 20
                * (heads.vector.entries.count + heads.met.count + heads.known.count
                    + heads.departed.count)
        case .notification(let transactions):
            transactions.reduce(16) { $0 + $1.count + 5 }
        case .announcement(let announced): 16 + announced.count * 32
        case .pull(let pull): 64 + 20 * pull.vector.entries.count
        case .page(let page):
            page.transactions.reduce(64 + 20 * page.vector.entries.count) { $0 + $1.count + 5 }
        case .piece(let piece): 64 + piece.bytes.count
        case .models(let list): list.models.reduce(16) { $0 + $1.text.count + 48 }
        case .transferPull(let pull): 64 + 20 * pull.vector.entries.count
        case .transferPart(let part): 96 + part.bytes.count
        }
    }

    fileprivate func write(to writer: inout CBORWriter, telling beginnings: Beginnings?) {
        switch self {
        case .heads(let heads), .hello(let heads):
            heads.write(to: &writer, telling: beginnings)
        case .notification(let transactions): Self.write(transactions, to: &writer)
        case .announcement(let announced):
            writer.beginArray(announced.count)
            for transaction in announced {
                writer.beginArray(2)
                writer.write(transaction.dot)
                writer.write(transaction.size)
            }
        case .pull(let pull):
            writer.beginArray(pull.resume == nil ? 3 : 5)
            writer.write(pull.id)
            writer.write(pull.vector)
            writer.write(pull.credit)
            if let resume = pull.resume {
                writer.write(resume.dot)
                writer.write(resume.offset)
            }
        case .page(let page):
            writer.beginArray(5)
            writer.write(page.id)
            Self.write(page.transactions, to: &writer)
            writer.write(page.reachedEnd)
            writer.write(page.vector)
            writer.write(page.recovery.rawValue)
        case .models(let list):
            writer.beginArray(1 + 2 * list.models.count)
            writer.write(list.isAnswer)
            for model in list.models {
                writer.write(model.hash)
                writer.write(model.text)
            }
        case .piece(let piece):
            writer.beginArray(6)
            writer.write(piece.id)
            writer.write(piece.dot)
            writer.write(piece.offset)
            writer.write(piece.total)
            writer.write(piece.bytes)
            writer.write(piece.recovery.rawValue)
        case .transferPull(let pull): pull.write(to: &writer)
        case .transferPart(let part): part.write(to: &writer)
        }
    }

    private static func write(_ transactions: [[UInt8]], to writer: inout CBORWriter) {
        writer.beginArray(transactions.count)
        for bytes in transactions { writer.write(bytes) }
    }

    fileprivate static func read(
        kind: UInt64, from reader: inout CBORReader, limits: Limits, beginnings: Beginnings
    ) throws(DecodingFailure) -> Message {
        switch kind {
        case 0: return .heads(try Heads(from: &reader, limits: limits, beginnings))
        case 1: return .hello(try Heads(from: &reader, limits: limits, beginnings))
        case 2: return .notification(try transactions(from: &reader, limits: limits))
        case 3: return .announcement(try announced(from: &reader, limits: limits))
        case 4: return .pull(try Pull(from: &reader))
        case 5:
            try reader.array(exactly: 5)
            let id = try reader.unsigned()
            let transactions = try transactions(from: &reader, limits: limits)
            let reachedEnd = try reader.boolean()
            let vector = try reader.vector()
            return .page(
                Page(
                    id: id, transactions: transactions, reachedEnd: reachedEnd, vector: vector,
                    recovery: try Recovery(from: &reader)))
        case 6: return .piece(try Piece(from: &reader))
        case 7: return .models(try ModelList(from: &reader))
        case 8: return .transferPull(try TransferPull(from: &reader))
        case 9: return .transferPart(try TransferPart(from: &reader))
        default: throw DecodingFailure("unknown kind of message", offset: reader.offset)
        }
    }

    private static func transactions(
        from reader: inout CBORReader, limits: Limits
    ) throws(DecodingFailure) -> [[UInt8]] {
        let count = try reader.array()
        guard count <= limits.transactionsInFrame else {
            throw DecodingFailure("too many transactions", offset: reader.offset)
        }
        var transactions: [[UInt8]] = []
        transactions.reserveCapacity(count)
        for _ in 0..<count { transactions.append(try reader.data()) }
        return transactions
    }

    private static func announced(
        from reader: inout CBORReader, limits: Limits
    ) throws(DecodingFailure) -> [Announced] {
        let count = try reader.array(least: 6)
        guard count <= limits.transactionsInFrame else {
            throw DecodingFailure("too many announcements", offset: reader.offset)
        }
        var announced: [Announced] = []
        announced.reserveCapacity(count)
        for _ in 0..<count {
            try reader.array(exactly: 2)
            let dot = try reader.dot()
            announced.append(Announced(dot: dot, size: try reader.unsigned()))
        }
        return announced
    }
}

/// A vector is [vector or its frontier, sum of all sequences of the vector]; durable and recorded are
/// what each of them differs in from the one before: [node, incarnation, sequence or 0 ...].
extension Heads {
    fileprivate func write(to writer: inout CBORWriter, telling beginnings: Beginnings?) {
        writer.beginArray(17)
        writer.write(UInt64(actor.node.rawValue))
        writer.write(actor.incarnation)
        writer.write(beginnings?.frontier(of: vector) ?? vector)
        writer.write(vector.total)
        Self.write(durable, insteadOf: vector, to: &writer)
        Self.write(recorded, insteadOf: durable, to: &writer)
        writer.write(digest.high)
        writer.write(digest.low)
        writer.write(clock.rawValue)
        writer.write(wallMilliseconds)
        writer.write(modelHash)
        Self.write(met, to: &writer)
        Self.write(known, to: &writer)
        Self.write(departed, to: &writer)
        writer.write(recovery.rawValue)
        Self.write(founders, to: &writer)
        Self.write(configured, to: &writer)
    }

    private static func write(
        _ part: VersionVector, insteadOf whole: VersionVector, to writer: inout CBORWriter
    ) {
        let actors = part == whole ? [] : part.joined(whole).entries.map(\.actor)
        let others = actors.filter { part[$0] != whole[$0] }
        writer.beginArray(3 * others.count)
        for actor in others {
            writer.write(UInt64(actor.node.rawValue))
            writer.write(actor.incarnation)
            writer.write(part[actor])
        }
    }

    /// Reads a vector that is within another one.
    private static func part(
        of whole: VersionVector, isWhole: Bool, from reader: inout CBORReader
    ) throws(DecodingFailure) -> VersionVector {
        let count = try reader.array()
        guard count % 3 == 0 else {
            throw DecodingFailure("a vector has three numbers an actor", offset: reader.offset)
        }
        var differing: [VersionVector.Entry] = []
        for _ in 0..<count / 3 {
            let actor = try reader.actor()
            let sequence = try reader.unsigned()
            // A vector that is not known as a whole is not used, whatever it says.
            guard !isWhole || sequence < whole[actor],
                differing.last.map({ $0.actor < actor }) ?? true
            else { throw DecodingFailure("heads contradict themselves", offset: reader.offset) }
            differing.append(.init(actor: actor, sequence: sequence))
        }
        if differing.isEmpty { return whole }
        var index = 0
        return VersionVector(
            whole.entries.map { entry in
                while index < differing.count, differing[index].actor < entry.actor { index += 1 }
                let isOther = index < differing.count && differing[index].actor == entry.actor
                return isOther ? differing[index] : entry
            })
    }

    private static func write(_ nodes: [NodeID], to writer: inout CBORWriter) {
        writer.beginArray(nodes.count)
        for node in nodes { writer.write(UInt64(node.rawValue)) }
    }

    private static func write(_ incarnations: [ActorID], to writer: inout CBORWriter) {
        writer.beginArray(2 * incarnations.count)
        for actor in incarnations {
            writer.write(UInt64(actor.node.rawValue))
            writer.write(actor.incarnation)
        }
    }

    fileprivate init(
        from reader: inout CBORReader, limits: Limits, _ beginnings: Beginnings
    ) throws(DecodingFailure) {
        try reader.array(exactly: 17)
        actor = try reader.actor()
        let told = try reader.vector()
        let total = try reader.unsigned()
        // A vector that names more is not taken in either.
        let isNamed = told.total == total || told.entries.count > limits.actors
        vector = isNamed ? told : beginnings.closure(of: told)
        isWhole = vector.total == total
        durable = try Self.part(of: vector, isWhole: isWhole, from: &reader)
        recorded = try Self.part(of: durable, isWhole: isWhole, from: &reader)
        let high = try reader.unsigned()
        digest = ProjectionDigest(high: high, low: try reader.unsigned())
        clock = try reader.timestamp()
        wallMilliseconds = try reader.unsigned()
        modelHash = try reader.data()
        guard modelHash.count == 32 else {
            throw DecodingFailure("a model hash has 32 bytes", offset: reader.offset)
        }
        met = try Self.incarnations(from: &reader, limits: limits)
        known = try Self.incarnations(from: &reader, limits: limits)
        departed = try Self.nodes(from: &reader, limits: limits)
        recovery = try Recovery(from: &reader)
        founders = try Self.incarnations(from: &reader, limits: limits)
        configured = try Self.nodes(from: &reader, limits: limits)
    }

    private static func nodes(
        from reader: inout CBORReader, limits: Limits
    ) throws(DecodingFailure) -> [NodeID] {
        let count = try reader.array()
        guard count <= limits.peers else {
            throw DecodingFailure("too many nodes", offset: reader.offset)
        }
        var nodes: [NodeID] = []
        nodes.reserveCapacity(count)
        for _ in 0..<count {
            let node = try reader.node()
            if let last = nodes.last, last >= node {
                throw DecodingFailure("nodes are out of order", offset: reader.offset)
            }
            nodes.append(node)
        }
        return nodes
    }

    private static func incarnations(
        from reader: inout CBORReader, limits: Limits
    ) throws(DecodingFailure) -> [ActorID] {
        let count = try reader.array()
        guard count.isMultiple(of: 2), count / 2 <= limits.peers else {
            throw DecodingFailure("too many incarnations, or half of one", offset: reader.offset)
        }
        var incarnations: [ActorID] = []
        incarnations.reserveCapacity(count / 2)
        for _ in 0..<count / 2 {
            let actor = try reader.actor()
            if let last = incarnations.last, last.node >= actor.node {
                throw DecodingFailure("incarnations are out of order", offset: reader.offset)
            }
            incarnations.append(actor)
        }
        return incarnations
    }
}

extension Recovery {
    fileprivate init(from reader: inout CBORReader) throws(DecodingFailure) {
        guard let recovery = Recovery(rawValue: try reader.unsigned()) else {
            throw DecodingFailure("unknown kind of recovery", offset: reader.offset)
        }
        self = recovery
    }
}

extension ModelList {
    fileprivate init(from reader: inout CBORReader) throws(DecodingFailure) {
        let count = try reader.array()
        guard count >= 3, !count.isMultiple(of: 2), count / 2 <= Self.countLimit else {
            throw DecodingFailure("no models, too many or half of one", offset: reader.offset)
        }
        isAnswer = try reader.boolean()
        models = []
        for _ in 0..<count / 2 {
            let hash = try reader.data()
            guard hash.count == 32 else {
                throw DecodingFailure("a model hash has 32 bytes", offset: reader.offset)
            }
            models.append(ModelText(hash: hash, text: try reader.data()))
        }
    }
}

extension Pull {
    fileprivate init(from reader: inout CBORReader) throws(DecodingFailure) {
        let count = try reader.array()
        guard count == 3 || count == 5 else {
            throw DecodingFailure("a pull has 3 or 5 parts", offset: reader.offset)
        }
        id = try reader.unsigned()
        vector = try reader.vector()
        credit = try reader.unsigned()
        resume = nil
        if count == 5 {
            let dot = try reader.dot()
            resume = Resume(dot: dot, offset: try reader.unsigned())
        }
    }
}

extension Piece {
    fileprivate init(from reader: inout CBORReader) throws(DecodingFailure) {
        try reader.array(exactly: 6)
        id = try reader.unsigned()
        dot = try reader.dot()
        offset = try reader.unsigned()
        total = try reader.unsigned()
        bytes = try reader.data()
        recovery = try Recovery(from: &reader)
        guard !bytes.isEmpty, offset < total, UInt64(bytes.count) <= total - offset else {
            throw DecodingFailure("a piece does not lie in its whole", offset: reader.offset)
        }
    }
}
