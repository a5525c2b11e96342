// Alarms: their names, what they mean, and what an operator does about them.

/// The name of an alarm, in logging and in status. Scripts compare these, so they never change.
enum AlarmName: String, CaseIterable {
    case digestMismatch
    case refused
    case dotReused
    case twoNodesWithOneID
    case incarnationOutdated
    case unexpectedSender
    case rejected
    case timestampInFuture
    case clockOff
    case stampsAhead
    case clocksApart
    case transactionTooLarge
    case transferFailed
    case historyTooShort
    case departed
    case undecodable
    case quarantined
    case history
    case orphaned
    case orphansNotKept
    case notApplied
    case notDurable
    case storeRemoved
    case connectionsFull
    case damageSuspected

    /// The meaning of an alarm and its remedy, as Markdown with links into docs/OPERATIONS.md.
    struct Guide {
        let meaning: String
        let remedy: String

        init(_ meaning: String, _ remedy: String) {
            self.meaning = meaning
            self.remedy = remedy
        }
    }

    /// The guide to each alarm. A test writes it into docs/OPERATIONS.md.
    static let guides: [AlarmName: Guide] = [
        .digestMismatch: Guide(
            """
            A peer has the same vector and other data: a broken disk or a defect. Damage in one \
            row alone does not show in it, so run `verify` now and then.
            """,
            """
            `tributary verify --against URL` names objects and transactions. Exit code 5: rebuild \
            that store. Exit code 1: both stores are sound, so back up and report.
            """),
        .refused: Guide(
            "A peer has another cluster, protocol or model, or (`membership`) it departed.",
            "Fix the configuration, finish the upgrade, or switch the peer off."),
        .dotReused: Guide(
            """
            A peer has transactions in this node's name that this store lacks: the store lost \
            saves, or another process uses the number.
            """,
            "Stop saving there, look for a second process, [restore](#restore)."),
        .twoNodesWithOneID: Guide(
            "Two live processes use one number. The younger one ends with exit code 12.",
            "Stop one for good and move its clients."),
        .incarnationOutdated: Guide(
            "A peer's store was copied or put back, or a message was late.",
            "Once: nothing. Again: look for a second store of that node."),
        .unexpectedSender: Guide(
            "The node at a peer's address is another one.",
            "Fix the addresses and reload."),
        .rejected: Guide(
            """
            A transaction cannot be applied. The node tries again every minute; later transactions \
            that need it wait.
            """,
            "Back up and report. If other nodes applied it, [rebuild](#rebuild-a-damaged-store)."),
        .timestampInFuture: Guide(
            """
            A transaction is more than five minutes ahead of this node's clock. The node holds it \
            until then.
            """,
            """
            Fix the writer's clock. If it is a year ahead: export the writer's own saves, retire \
            it, and join it under a new number.
            """),
        .clockOff: Guide(
            """
            This node's clock is more than five minutes from the members' median. It refuses saves \
            (503 `clockDrift`).
            """,
            "Fix the clock."),
        .stampsAhead: Guide(
            "This node's clock was ahead once. Other nodes hold its saves until then.",
            """
            Minutes: wait. Months: export its own saves, retire it, and join it under a new number \
            with an empty store.
            """),
        .clocksApart: Guide(
            """
            The clocks of the only two nodes differ by more than five minutes. Neither can tell \
            which is off.
            """,
            "Fix the clock that is off."),
        .transactionTooLarge: Guide(
            "A save is too large to send (256 MiB). It and all later saves of this node stay here.",
            "Export what is only there, rebuild, and save in parts."),
        .transferFailed: Guide(
            """
            The node could not take a copy of a member's store: the disk is full, the copy is \
            damaged, or a program reads the store's file (`storeBusy`). The node tries again after \
            a minute, then after twice as long, up to an hour.
            """,
            "Make room, or end the program that reads the file."),
        .historyTooShort: Guide(
            "A peer has purged transactions that are missing here.",
            "Another member has them, or the node takes a copy: watch `transfer`."),
        .departed: Guide(
            "This node left or was retired. It takes no saves.",
            "Save at other nodes. `tributary history --store` shows its own saves."),
        .undecodable: Guide(
            "A frame cannot be decoded.",
            """
            If the mesh has keys, only a member can send one: look at its release and its machine.
            """),
        .quarantined: Guide(
            """
            A peer sent a frame that cannot be decoded. The node ignores the peer for a minute to \
            an hour, or until a reload.
            """,
            "As for `undecodable`."),
        .history: Guide(
            """
            The log was over its maximum size, so the node purged transactions that `peer` is not \
            known to have. One other member has them.
            """,
            "Bring the peer back, raise the maximum, or retire the peer."),
        .orphaned: Guide(
            "The node keeps saves that can never be applied.",
            "[Look through them](#orphans)."),
        .orphansNotKept: Guide(
            """
            There is no room for more saves that can never be applied: 10,000 or 64 MiB are kept, \
            or 10,000 or 32 MiB wait. The newest are left out and named.
            """,
            "Look through those that each node keeps, and discard them."),
        .notApplied: Guide(
            """
            Transactions of other nodes cannot be applied, as when the disk is full. The node \
            tries again every second.
            """,
            "Make room."),
        .notDurable: Guide(
            """
            Applied transactions of other nodes cannot be made durable, as when the disk is full. \
            The node tries again every second.
            """,
            "Make room."),
        .storeRemoved: Guide(
            "The store's files were removed or replaced. The node refuses saves.",
            """
            Put them back. Or back up the running node, stop it, and [restore](#restore) that \
            backup.
            """),
        .connectionsFull: Guide(
            "All HTTP connections are taken. The node closes the longest idle ones.",
            "Look with `ss -tnp` at who holds them. Raise the limit if they are legitimate."),
        .damageSuspected: Guide(
            "A backup or `verify` found damage.",
            "Run `tributary verify`, and back up to another disk."),
    ]

    /// The table of alarms in docs/OPERATIONS.md.
    static var table: [String] {
        ["| alarm | meaning | what to do |", "|---|---|---|"]
            + allCases.map { name in
                let guide = guides[name] ?? Guide("", "")
                return "| `\(name.rawValue)` | \(guide.meaning) | \(guide.remedy) |"
            }
    }
}
