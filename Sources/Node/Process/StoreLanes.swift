// Where the jobs of the store are done.
//
// Threading: asked on the loop's thread; answers go through the handover queue.

internal import Dispatch
internal import NodeCore

/// Does the store's jobs, each lane on a queue of its own, so that the loop never waits for the disk.
struct StoreLanes {
    let store: NodeStore
    private let handover: HandoverQueue
    /// The writer has a queue itself.
    private let queues: [StoreJob.Lane: DispatchQueue]

    init(
        store: NodeStore, handover: HandoverQueue, reading: DispatchQueue,
        upkeep: DispatchQueue
    ) {
        self.store = store
        self.handover = handover
        // Giving and taking copies wait for the disk, and for each other only by it.
        queues = [
            .reading: reading, .upkeep: upkeep,
            .giving: DispatchQueue(label: "tributary.node.giving", qos: .utility),
            .taking: DispatchQueue(label: "tributary.node.taking", qos: .utility),
        ]
    }

    /// Does a job after so many milliseconds.
    func perform(_ job: StoreJob, after milliseconds: UInt64) {
        let (store, handover) = (store, handover)
        let work = { @Sendable in
            store.perform(job) { handover.give(.answered(job, $0)) }
        }
        guard let queue = queues[job.lane] else { return work() }
        guard milliseconds > 0 else { return queue.async(execute: work) }
        queue.asyncAfter(
            deadline: .now() + .milliseconds(Int(clamping: milliseconds)), execute: work)
    }
}
