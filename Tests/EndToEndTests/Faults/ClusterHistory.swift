import Coordinator

/// The log of a node as it tells it: every transaction by its dot.
struct NodeHistory: Sendable {
    /// A transaction, in the order applied there.
    struct Entry: Sendable {
        let dot: String
        let saveID: String
        let seen: [String: Int64]
        /// What its writer wrote.
        let changes: [JSONObject]
        /// All of it as text; equal for equal transactions. Derived changes are left out: they tell what
        /// became of it at one node.
        let text: String

        init(_ transaction: JSONObject) {
            dot = transaction.text("dot")
            saveID = transaction.text("saveID")
            seen = transaction.vector("seen")
            changes = transaction.objects("changes").filter {
                $0["derived"] == nil
            }
            var written = transaction
            written["changes"] = .array(changes.map { .object($0) })
            text = JSONWriter.text(of: .object(written))
        }

        /// Whether it was made by somebody who had seen another one.
        func hasSeen(_ dot: String) -> Bool {
            guard let (actor, sequence) = NodeHistory.parts(of: dot) else { return false }
            return seen[actor, default: 0] >= sequence
        }
    }

    private(set) var entries: [Entry] = []
    private var token: String?

    /// Actor and sequence of a dot.
    static func parts(of dot: String) -> (actor: String, sequence: Int64)? {
        guard let dash = dot.lastIndex(of: "-"),
            let sequence = Int64(dot[dot.index(after: dash)...])
        else { return nil }
        return (String(dot[..<dash]), sequence)
    }

    /// Reads what has come since the last reading; gives that.
    @discardableResult
    mutating func read(from node: NodeHandle) async throws -> [Entry] {
        var new: [Entry] = []
        while true {
            let path =
                token.map { "/v1/history?limit=2000&after=\($0)" } ?? "/v1/history?limit=2000"
            let answer = try await node.expect("GET", path)
            token = answer.text("token")
            let page = answer.objects("transactions")
            guard !page.isEmpty else { break }
            new += page.map(Entry.init)
        }
        entries += new
        return new
    }
}
