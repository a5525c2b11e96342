import Merge

/// The alarms that are raised once a run, by what they are about; bounded by the peers.
struct RaisedAlarms: Sendable {
    private var raised: [Alarm] = []
    private var isUndecodableRaised = false

    /// Whether an alarm is to be raised: not where the very same was raised before in this run, or very
    /// many others were. The two that this node ends by always are, once.
    mutating func note(_ alarm: Alarm, own: NodeID, limits: Limits) -> Bool {
        let isOfOwnEnd: Bool
        switch alarm {
        case .undecodable:
            // Whatever the reason.
            defer { isUndecodableRaised = true }
            return !isUndecodableRaised
        case .twoNodesWithOneID(own, incarnation: nil), .departed: isOfOwnEnd = true
        default: isOfOwnEnd = false
        }
        guard isOfOwnEnd || raised.count < limits.peers, !raised.contains(alarm) else {
            return false
        }
        raised.append(alarm)
        return true
    }
}
