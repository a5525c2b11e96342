/// A figure that is measured at Tributary and at PostgreSQL.
enum PeerFigure: Hashable {
    case saves(clients: Int)
    case p50(clients: Int)
    case p99(clients: Int)
    case settling(clients: Int)
    case processor(clients: Int)
    case switchesTaking, switchesApplying
    case visible
    case updates, updatesLost
    case increments, incrementsRefused, incrementsLost
    case additions, additionsLost
    case loading, catchingUp
    case idle, resident, proportional

    /// How many clients insert.
    static let clients = [1, 8, 32]

    /// All, in the order of the table.
    static let all: [PeerFigure] =
        clients.flatMap { clients in
            [
                .saves(clients: clients), .p50(clients: clients), .p99(clients: clients),
                .settling(clients: clients), .processor(clients: clients),
            ]
        } + [
            .switchesTaking, .switchesApplying, .visible, .updates, .updatesLost, .increments,
            .incrementsRefused, .incrementsLost,
            .additions, .additionsLost, .loading, .catchingUp, .idle, .resident, .proportional,
        ]

    /// What it is called, its unit, and how many places it is shown with.
    var title: (name: String, unit: String, places: Int) {
        switch self {
        case .saves(let clients): ("\(Self.text(clients)): saves a second", "", 0)
        case .p50(let clients): ("\(Self.text(clients)): p50", " ms", 2)
        case .p99(let clients): ("\(Self.text(clients)): p99", " ms", 2)
        case .settling(let clients): ("\(Self.text(clients)): until all nodes have all", " ms", 1)
        case .processor(let clients): ("\(Self.text(clients)): processor time a save", " us", 0)
        case .switchesTaking: ("1 client: voluntary switches a save, where it is made", "", 1)
        case .switchesApplying: ("1 client: voluntary switches a save, at another node", "", 1)
        case .visible: ("acknowledged at node 1 to visible at node 2, p50", " ms", 3)
        case .updates: ("12 clients: updates a second", "", 0)
        case .updatesLost: ("12 clients: written cells that lost their last value", " %", 2)
        case .increments: ("12 clients: increments a second", "", 0)
        case .incrementsRefused: ("12 clients: increments refused", " %", 1)
        case .incrementsLost: ("12 clients: acknowledged increments lost", " %", 1)
        case .additions: ("12 clients: sums that the server makes, a second", "", 0)
        case .additionsLost: ("12 clients: acknowledged sums lost", " %", 1)
        case .loading: ("rows loaded a second, 100 a save, node 3 down", "", 0)
        case .catchingUp: ("until node 3, started again, has them", " s", 2)
        case .idle: ("idle: share of a core a node", " %", 2)
        case .resident: ("idle: resident memory a node, shared pages in each process", " MiB", 1)
        case .proportional: ("idle: resident memory a node, shared pages once", " MiB", 1)
        }
    }

    private static func text(_ clients: Int) -> String {
        clients == 1 ? "1 client" : "\(clients) clients"
    }

    /// What Tributary's figure divided by PostgreSQL's must be.
    var ratio: Goal.Bound? {
        switch self {
        case .saves(1), .loading: .atLeast(1)
        case .saves(8), .updates: .atLeast(1.2)
        case .saves(32): .atLeast(1.5)
        case .p99, .visible: .atMost(1)
        default: nil
        }
    }

    /// What Tributary's figure itself must be.
    var bound: Goal.Bound? {
        switch self {
        case .visible: .atMost(0.4)
        case .switchesTaking: .atMost(4)
        case .switchesApplying: .atMost(2)
        case .processor(1): .atMost(300)
        case .processor(32): .atMost(150)
        case .idle: .atMost(0.3)
        case .resident: .atMost(30)
        default: nil
        }
    }
}
