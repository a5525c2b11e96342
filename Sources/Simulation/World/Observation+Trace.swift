internal import Coordinator
internal import Merge

extension Observation {
    /// The line of a trace for it; nil if it has none, or another line says it.
    var traceLine: String? {
        switch self {
        case .committed(let node, let notice):
            let dots = notice.transactions.map(\.dot.description).joined(separator: " ")
            return "node \(node + 1) generation \(notice.token.generation) "
                + "\(notice.isLocal ? "saves" : "applies") [\(dots)]"
        case .found(let node, let transactions):
            let dots = transactions.map(\.dot.description).joined(separator: " ")
            return "node \(node + 1) finds [\(dots)] in its store"
        case .durable(let node, let vector):
            return "node \(node + 1) has on disk \(Self.text(vector))"
        case .stable(let node, let vector, _):
            return "node \(node + 1) calls stable \(Self.text(vector))"
        case .collected(let node, _, let result):
            return "node \(node + 1) collects \(result)"
        case .refused(let node, let save, let error):
            return "node \(node + 1) refuses save \(save.author ?? ""): \(error)"
        case .unknown(let node, let save, let error):
            return "node \(node + 1) leaves save \(save.author ?? "") unknown: \(error)"
        case .acknowledged(let node, let save, let result):
            return "node \(node + 1) acknowledges \(save.author ?? "") as "
                + (result.transaction?.description ?? "nothing")
        case .contextSaved(let node, let record):
            let outcome = record.error.map { "is refused \($0.code.rawValue)" } ?? "has saved"
            let objects = record.objects.map { Self.text($0) }.joined(separator: "; ")
            return "node \(node + 1) context with \(record.policy.rawValue) \(outcome) \(objects)"
        default: return nil
        }
    }

    private static func text(_ object: ContextRecord.Object) -> String {
        let assigned =
            object.assigned.map { assigned in
                assigned.sorted { $0.key < $1.key }.map { "\($0.key): \(Telling.value($0.value))" }
                    .joined(separator: ", ")
            } ?? "deleted"
        return "\(object.id): fetched \(text(object.fetched)), assigned [\(assigned)], stored "
            + "\(text(object.stored)), then \(text(object.after))"
    }

    private static func text(_ row: RowSnapshot?) -> String {
        guard let row else { return "gone" }
        let values = row.values.map { Telling.value($0) }.joined(separator: ", ")
        return "\(row.version) [\(values)]"
    }

    private static func text(_ vector: VersionVector) -> String {
        "[" + vector.entries.map { "\($0.actor)-\($0.sequence)" }.joined(separator: " ") + "]"
    }
}
