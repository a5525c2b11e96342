import Merge

/// The policies, as arguments of tests.
enum MergePolicyChoice: CaseIterable {
    case error, errorByRow, storeTrump, objectTrump, rollback, overwrite

    var policy: MergePolicy {
        switch self {
        case .error: .error
        case .errorByRow: .errorByRow
        case .storeTrump: .mergeByPropertyStoreTrump
        case .objectTrump: .mergeByPropertyObjectTrump
        case .rollback: .rollback
        case .overwrite: .overwrite
        }
    }
}
