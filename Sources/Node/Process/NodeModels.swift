// Models, as logging and status describe them.

internal import Replication

extension ModelText {
    /// The beginning of a version hash, for people.
    static func name(_ hash: [UInt8]) -> String {
        hash.prefix(6).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Refusal {
    /// The difference, for people: part by part if it is known.
    var reason: String { difference ?? "here \(ours), there \(theirs)" }
}
