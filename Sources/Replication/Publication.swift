import Merge

/// How saves are published: small ones together, long ones by name only.
enum Publication: Hashable, Sendable {
    /// Whole, in one frame.
    case together([[UInt8]])
    /// By its name: a node that lacks it pulls it.
    case byName(EncodedTransaction)

    /// The frames for some saves, in order.
    static func plan(_ transactions: [EncodedTransaction], _ limits: Limits) -> [Publication] {
        var plan: [Publication] = []
        var group: [[UInt8]] = []
        var groupBytes = 0
        func close() {
            if !group.isEmpty { plan.append(.together(group)) }
            group = []
            groupBytes = 0
        }
        for transaction in transactions {
            let size = transaction.bytes.count
            if size > limits.notificationBytes {
                close()
                plan.append(.byName(transaction))
                continue
            }
            if groupBytes + size > limits.groupedNotificationBytes
                || group.count == limits.transactionsInFrame
            {
                close()
            }
            group.append(transaction.bytes)
            groupBytes += size
        }
        close()
        return plan
    }
}
