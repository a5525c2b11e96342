// What peers last said of their digests, for `verify`.
//
// Threading: belongs to the loop's thread.

internal import Merge
internal import Replication

/// Remembers the vector and digest of each peer's last heads.
///
/// The replicator compares digests as they come and keeps none, so the frames are looked into
/// here, at most twice a second and peer, and only those short enough to be heads.
struct DigestBook {
    /// Longer frames are not decoded twice; heads of a few hundred actors are shorter.
    private static let frameBytes = 16_384
    /// Heads come every second.
    private static let intervalMilliseconds: UInt64 = 500

    private struct Entry {
        var digest: PeerDigest
        var heardAt: UInt64
    }

    private let cluster: String
    /// Peers of another model show other things, so their digests say nothing.
    private let modelHash: [UInt8]
    private let limits: Limits
    /// One entry a peer, of at most so many.
    private static let maximumPeers = 1_024
    private var entries: [NodeID: Entry] = [:]

    init(cluster: String, modelHash: [UInt8], limits: Limits) {
        self.modelHash = modelHash
        self.cluster = cluster
        self.limits = limits
    }

    /// The digests, by number of the peer.
    var digests: [PeerDigest] {
        entries.values.map(\.digest).sorted { $0.node < $1.node }
    }

    /// Looks into a frame, where it may be heads that are due.
    mutating func note(_ frame: IncomingFrame, now: UInt64) {
        guard frame.bytes.count <= Self.frameBytes,
            entries.count < Self.maximumPeers || entries[frame.sender] != nil,
            now >= (entries[frame.sender]?.heardAt ?? 0) + Self.intervalMilliseconds,
            let envelope = try? Envelope.decode(frame.bytes, cluster: cluster, limits: limits),
            envelope.sender == frame.sender
        else { return }
        switch envelope.message {
        case .heads(let heads), .hello(let heads):
            guard heads.modelHash == modelHash else {
                entries[frame.sender] = nil
                return
            }
            entries[frame.sender] = Entry(
                digest: PeerDigest(
                    node: frame.sender, vector: heads.vector, digest: heads.digest),
                heardAt: now)
        default: return
        }
    }
}
