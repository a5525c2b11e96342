import Merge

extension Membership {
    /// Takes in all that another tells.
    mutating func join(_ other: Membership) {
        for member in other.members {
            if let address = member.address, let joined = member.joined {
                apply(.join(member.node, address), stamp: joined)
            }
            if let departure = member.departure {
                apply(.depart(member.node, isRetired: departure.isRetired), stamp: departure.stamp)
            }
        }
    }
}
