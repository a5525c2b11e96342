import Merge
import Testing

@testable import Coordinator

@Suite("Which jobs that wait are committed together") struct CommitQueueTests {
    private func save(_ size: Int = 1) -> CommitJob {
        .save(make: { _ in throw CoordinatorError(.diskFull, "") }, size: size) { _ in }
    }

    private func apply() -> CommitJob { .apply([]) { _ in } }

    private func makeDurable() -> CommitJob { .makeDurable { _ in } }

    /// The sizes of the groups that a leader takes until none waits.
    private func groups(of jobs: [CommitJob], _ reach: CommitQueue.Reach = .all) -> [Int] {
        var queue = CommitQueue()
        #expect(queue.add(jobs).accepted == jobs.count)
        var sizes: [Int] = []
        while let group = queue.takeGroup(reach) {
            sizes.append(group.count)
            if group.isEmpty { break }
        }
        return sizes
    }

    @Test("Saves and what came from others go together; what may fail by itself goes without saves")
    func kinds() {
        #expect(groups(of: [save(), apply(), save(), apply()]) == [4])
        #expect(groups(of: [apply(), makeDurable(), save()]) == [2, 1])
        #expect(groups(of: [save(), makeDurable(), apply()]) == [1, 2])
        #expect(groups(of: [save(), apply(), makeDurable(), save()]) == [2, 1, 1])
        let alone = CommitJob.maintain({ _ in }, isAlone: true) { _ in }
        #expect(groups(of: [makeDurable(), alone, makeDurable()]) == [1, 1, 1])
    }

    @Test("A group has a bound of jobs, and one of operations but for its first")
    func bounds() {
        #expect(groups(of: Array(repeating: save(), count: 1_025)) == [512, 512, 1])
        #expect(groups(of: [save(2_000), save(3_000), save(1)]) == [2, 1])
        #expect(groups(of: [save(1), save(6_000), save(1)]) == [1, 1, 1])
    }

    @Test("A short reach ends before a long job, and takes nothing where that is the first")
    func reach() {
        #expect(groups(of: [save(64), save(65), save(1)], .short) == [1, 0])
        #expect(groups(of: [makeDurable()], .short) == [0])
    }

    @Test("After a commit that took long, a short reach takes nothing for a hundred commits")
    func slowDisk() {
        var queue = CommitQueue()
        queue.noteCommit(milliseconds: 19)
        #expect(queue.isDiskQuick)
        queue.noteCommit(milliseconds: 20)
        _ = queue.add([save()])
        for _ in 0..<100 {
            #expect(!queue.isDiskQuick)
            let group = queue.takeGroup(.short)
            #expect(group?.isEmpty == true)
            queue.noteCommit(milliseconds: 1)
        }
        let group = queue.takeGroup(.short)
        #expect(group?.count == 1)
    }

    @Test("One leads until none waits; past the bound nothing is accepted")
    func leading() {
        var queue = CommitQueue()
        let first = queue.add([save()])
        let second = queue.add([save()])
        #expect(first.leads && !second.leads)
        var taken = [queue.takeGroup(.all)?.count]
        let third = queue.add([save()])
        #expect(!third.leads)
        taken += [queue.takeGroup(.all)?.count, queue.takeGroup(.all)?.count]
        #expect(taken == [2, 1, nil])
        let many = queue.add(Array(repeating: save(), count: 20_001))
        #expect(many.accepted == 20_000 && many.leads)
        let refused = queue.add([save()])
        #expect(refused.accepted == 0 && !refused.leads)
    }
}
