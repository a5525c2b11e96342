import Dispatch
import Testing

@testable import Coordinator

extension EngineNode {
    /// Opens it anew as one that stages what has ten operations.
    ///
    /// - Parameters:
    ///   - count: how many inserts it writes at once.
    ///   - worksAlone: whether it goes on with them while nothing else waits.
    func reopenStaging(atOnce count: Int = 4, worksAlone: Bool = true) throws {
        close()
        configure = {
            $0.stagedOperations = 10
            $0.stagedAtOnce = count
            $0.worksAlone = worksAlone
        }
        try open()
    }

    /// Waits until what is staged is in its rows' places: with each job of the writer a part is done.
    func finishStaging() {
        for _ in 0..<100 {
            let done = DispatchSemaphore(value: 0)
            coordinator.makeDurable { _ in done.signal() }
            done.wait()
        }
    }

    /// Sees that nothing of a staged transaction is left in the file; closes and opens the node.
    func expectNothingStaged() throws {
        finishStaging()
        close()
        #expect(
            try look(
                """
                SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')
                    OR name LIKE '\\_successor%' ESCAPE '\\' OR name LIKE '\\_former%' ESCAPE '\\'
                """) == 0)
        #expect(try look("SELECT count(*) FROM _staged") == 0)
        for root in Set(model.entities.map(\.root)).sorted() {
            #expect(try look("SELECT count(*) FROM \"\(root)\" WHERE _version >= 1 << 62") == 0)
        }
        for link in model.links {
            #expect(try look("SELECT count(*) FROM \"\(link.name)\" WHERE _alive > 1") == 0)
        }
        try open()
    }
}
