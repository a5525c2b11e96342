// Which connection of a peer answers go back along, and the names that dealers give themselves.
//
// Threading: belongs to the transport's thread.

internal import Merge

/// The newest way back to each node, bounded; the one heard longest ago is forgotten first.
struct RouteTable {
    private struct Entry {
        var route: ReplyRoute
        var heard: UInt64
    }

    private var entries: [NodeID: Entry] = [:]
    private var clock: UInt64 = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = max(1, capacity) }

    func route(to node: NodeID) -> ReplyRoute? { entries[node]?.route }

    mutating func remember(_ route: ReplyRoute) {
        clock += 1
        entries[route.node] = Entry(route: route, heard: clock)
        guard entries.count > capacity else { return }
        // Times are all different, so that the order of iteration does not matter.
        if let oldest = entries.min(by: { $0.value.heard < $1.value.heard }) {
            entries[oldest.key] = nil
        }
    }

    mutating func forget(_ node: NodeID) { entries[node] = nil }

    /// A name for a process of a node: `node-3-` and 16 hexadecimal digits.
    ///
    /// The random part keeps two processes that claim one NodeID apart, so that both can hear of
    /// it, and lets nobody take over a connection by guessing its name. It decides no result.
    static func identity(of node: NodeID) -> String {
        let random = String(UInt64.random(in: .min ... .max), radix: 16)
        return "node-\(node)-\(String(repeating: "0", count: 16 - random.count))\(random)"
    }

    /// The node that a name belongs to, or nil where it is not such a name.
    static func node(ofIdentity identity: [UInt8]) -> NodeID? {
        let parts = identity.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].elementsEqual("node".utf8), parts[2].count == 16,
            (1...5).contains(parts[1].count), parts[1].first != UInt8(ascii: "0"),
            parts[1].allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        return NodeID(parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) })
    }
}
