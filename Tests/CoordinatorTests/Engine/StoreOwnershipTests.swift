// Does the lock beside a store touch nothing but its own file?

import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coordinator

@Suite("The lock beside a store")
struct StoreOwnershipTests {
    /// A refused lock was once closed twice, and the second time closed whatever another thread
    /// had opened in between: seen as a stray disk I/O error in a store that was sound.
    @Test("A refused one closes its own file only, once")
    func refusalClosesOnce() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path + "-lock") }
        let held = try StoreOwnership(storePath: path)
        defer { held.release() }
        let refusals = Atomic<Int>(0)
        let lost = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 2) { thread in
            for _ in 0..<30_000 {
                if thread == 0 {
                    if (try? StoreOwnership(storePath: path)) == nil {
                        refusals.add(1, ordering: .relaxed)
                    }
                    continue
                }
                let descriptor = open("/dev/null", O_RDONLY)
                for _ in 0..<8 where fcntl(descriptor, F_GETFD) < 0 {
                    lost.add(1, ordering: .relaxed)
                    return
                }
                if close(descriptor) < 0 { lost.add(1, ordering: .relaxed) }
            }
        }
        #expect(refusals.load(ordering: .relaxed) == 30_000)
        #expect(lost.load(ordering: .relaxed) == 0)
    }
}
