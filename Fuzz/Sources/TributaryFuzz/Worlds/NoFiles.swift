import GRDB

@testable import Coordinator

/// Files of a store in memory: there are none beside it, and none is kept.
struct NoFiles: StoreFiles {
    /// How long whatever file is asked for is said to be; nil where there is said to be none.
    var length: UInt64?

    private struct Lock: StoreLock {
        func release() {}
    }

    func lock(storePath: String) -> any StoreLock { Lock() }
    func size(of path: String) -> UInt64? { length }
    func room(beside path: String) -> UInt64? { nil }
    func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? { nil }
    func replace(_ path: String, with bytes: [UInt8]) {}
    func rewrite(_ path: String) {}
    func write(_ bytes: [UInt8], to path: String, at offset: UInt64) {}
    func move(_ path: String, to other: String) {}
    func link(_ path: String, as other: String) {}
    func remove(_ path: String) {}
}

extension StoreEngine {
    /// Opens a store in memory.
    static func openInMemory(_ database: Database, _ model: ManagedObjectModel) throws
        -> StoreEngine
    {
        try StoreOpening.open(
            database, path: "memory", model: model, cluster: SampleModel.cluster,
            node: SampleRows.node, environment: SampleRows.environment, minimumIncarnation: 0,
            migration: .none, files: NoFiles())
    }
}
