// What peers last said of their digests, for `verify`.
//
// Threading: belongs to the loop's thread.

internal import Merge
internal import Replication

/// Remembers the vector and digest of each peer's last heads.
///
/// The replicator compares digests as they come and keeps none, so the frames are looked into
/// here: of each the first bytes, and of heads all, at most twice a second and peer.
struct DigestBook {
    /// Heads come every second.
    private static let intervalMilliseconds: UInt64 = 500
    /// The most bytes of an incarnation in heads: the node's number has three, its incarnation nine.
    private static let incarnationBytes = 12
    /// The most bytes of an entry in a vector: a sequence of nine besides.
    private static let entryBytes = 21
    /// The cluster's name, digest, clocks and the model's hash, with room.
    private static let otherBytes = 1_024

    private struct Entry {
        var digest: PeerDigest
        var heardAt: UInt64
    }

    private let cluster: String
    /// Peers of another model show other things, so their digests say nothing.
    private let modelHash: [UInt8]
    private let limits: Limits
    /// Longer frames are no heads that anybody heeds: those have a vector and two differences of at most
    /// `limits.actors` incarnations each, and lists of three incarnations and two numbers a node. With
    /// 16,384 incarnations that is a little over a megabyte, which a transport carries.
    private let frameBytes: Int
    /// One entry a peer, of at most so many. An entry is a vector of 24 bytes an incarnation: of
    /// 16,384 it has 384 KiB, and of the few hundred that a cluster comes to have a few KiB. The
    /// replicator keeps two such vectors of each peer as well.
    private static let maximumPeers = 1_024
    private var entries: [NodeID: Entry] = [:]

    init(cluster: String, modelHash: [UInt8], limits: Limits) {
        self.modelHash = modelHash
        self.cluster = cluster
        self.limits = limits
        frameBytes = min(
            limits.frameBytes,
            3 * limits.actors * Self.entryBytes + 5 * limits.peers * Self.incarnationBytes
                + Self.otherBytes)
    }

    /// The digests, by number of the peer.
    var digests: [PeerDigest] {
        entries.values.map(\.digest).sorted { $0.node < $1.node }
    }

    /// Looks into a frame, where it may be heads that are due.
    ///
    /// - Parameter beginnings: those that are known here.
    mutating func note(_ frame: IncomingFrame, now: UInt64, beginnings: Beginnings) {
        guard frame.bytes.count <= frameBytes,
            entries.count < Self.maximumPeers || entries[frame.sender] != nil,
            now >= (entries[frame.sender]?.heardAt ?? 0) + Self.intervalMilliseconds,
            Self.mayBeHeads(frame.bytes),
            let envelope = try? Envelope.decode(
                frame.bytes, cluster: cluster, limits: limits, beginnings: beginnings),
            envelope.sender == frame.sender
        else { return }
        switch envelope.message {
        case .heads(let heads), .hello(let heads):
            guard heads.modelHash == modelHash else {
                entries[frame.sender] = nil
                return
            }
            // The replicator takes neither a longer vector in, nor one of which a part is missing.
            guard heads.isWhole, heads.vector.entries.count <= limits.actors else { return }
            entries[frame.sender] = Entry(
                digest: PeerDigest(
                    node: frame.sender, vector: heads.vector, digest: heads.digest),
                heardAt: now)
        default: return
        }
    }

    /// Whether a frame says of itself that it is heads, so that no long page is decoded in vain.
    /// Revision, cluster and sender come first (see `Envelope`), then the kind: 0 is `heads`, 1 is
    /// `hello`.
    private static func mayBeHeads(_ bytes: [UInt8]) -> Bool {
        var reader = CBORReader(bytes)
        do throws(DecodingFailure) {
            try reader.array(exactly: 6)
            _ = try reader.unsigned()
            _ = try reader.text()
            _ = try reader.node()
            return try reader.unsigned() <= 1
        } catch { return false }
    }
}
