import Merge

extension PropertyValue {
    /// About how much memory it takes, in bytes.
    var memory: Int {
        switch self {
        case .string(let text), .uri(let text), .decimal(let text):
            24 + (text.utf8.count > 15 ? 32 + text.utf8.count : 0)
        case .binary(let bytes): 56 + bytes.count
        default: 24
        }
    }
}
