/// Where a member of the cluster is reached, and by which keys it is known.
public struct MemberAddress: Hashable, Sendable {
    /// Where it publishes, such as `tcp://10.0.0.4:7101`.
    public var publish: String
    /// Where it takes questions.
    public var exchange: String
    /// Its public keys as 40 characters of Z85 each, in the order given; none without CURVE.
    public var publicKeys: [String]

    /// Describes an address.
    public init(publish: String, exchange: String, publicKeys: [String] = []) {
        self.publish = publish
        self.exchange = exchange
        self.publicKeys = publicKeys
    }
}

/// The end of a membership. A NodeID is never used again, so there is no way back.
public struct Departure: Hashable, Sendable {
    /// The transaction that says so. A node that has applied it takes nothing from the departed
    /// node any more.
    public var stamp: Stamp
    /// Whether others decided it, because the node would not return; else it left by itself.
    public var isRetired: Bool

    /// Describes a departure.
    public init(stamp: Stamp, isRetired: Bool) {
        self.stamp = stamp
        self.isRetired = isRetired
    }
}

/// One node's place in the cluster, as transactions name it.
public struct Member: Hashable, Sendable {
    /// Which node.
    public let node: NodeID
    /// Where it is reached; nil where only its departure is known.
    public var address: MemberAddress?
    /// The latest write of the address.
    public var joined: Stamp?
    /// When it ceased to be a member; nil for a member.
    public var departure: Departure?

    /// Whether it is a member now.
    public var isCurrent: Bool { joined != nil && departure == nil }

    /// A node about which nothing is known yet.
    public init(
        node: NodeID, address: MemberAddress? = nil, joined: Stamp? = nil,
        departure: Departure? = nil
    ) {
        self.node = node
        self.address = address
        self.joined = joined
        self.departure = departure
    }
}

/// A change of membership, as a transaction carries it.
public enum MembershipChange: Hashable, Sendable {
    /// A node is a member, and reached there.
    case join(NodeID, MemberAddress)
    /// A node is not a member any more.
    case depart(NodeID, isRetired: Bool)

    /// Which node it concerns.
    public var node: NodeID {
        switch self {
        case .join(let node, _), .depart(let node, _): node
        }
    }
}

/// The members of the cluster, as far as transactions name them.
///
/// Two sets that only grow, those who ever joined and those who departed, and the latest address
/// of each node: so any order of applying comes to the same, and there is nothing to settle
/// (the two-phase set of Shapiro et al., 2011). Before the first change of membership it is empty,
/// and the configured peers are the members; the first change carries all of them.
public struct Membership: Hashable, Sendable {
    /// All nodes that transactions name, by number. At most 32 767, the largest number.
    public private(set) var members: [Member] = []

    /// Nobody: no transaction has told of members yet.
    public init() {}

    /// The members that a store has kept.
    ///
    /// - Parameter members: at most one a node, in any order.
    public init(members: [Member]) {
        self.members = members.sorted { $0.node < $1.node }
    }

    /// Whether no transaction has told of members yet.
    public var isEmpty: Bool { members.isEmpty }

    /// The members now, by number.
    public var current: [NodeID] { members.filter(\.isCurrent).map(\.node) }

    /// Those who were members, by number.
    public var departed: [Member] { members.filter { $0.departure != nil } }

    /// The entry of a node.
    public subscript(node: NodeID) -> Member? { members.first { $0.node == node } }

    /// Takes in one change.
    ///
    /// - Parameter stamp: that of the transaction. Of two addresses the later one stands, of two
    ///   departures the earlier.
    package mutating func apply(_ change: MembershipChange, stamp: Stamp) {
        let place = members.firstIndex { $0.node >= change.node } ?? members.endIndex
        if place == members.endIndex || members[place].node != change.node {
            members.insert(Member(node: change.node), at: place)
        }
        switch change {
        case .join(_, let address):
            if let joined = members[place].joined, joined >= stamp { return }
            members[place].address = address
            members[place].joined = stamp
        case .depart(_, let isRetired):
            if let departure = members[place].departure, departure.stamp <= stamp { return }
            members[place].departure = Departure(stamp: stamp, isRetired: isRetired)
        }
    }
}
