// A system that failed to sync a file forgets what it had to write: it shows the bytes to every
// process, and later syncs succeed, but the power takes them. Does a store outlive that?

import Merge
import Replication
import Simulation
import Synchronization
import Testing

@testable import Coordinator

@Suite("A failed sync and a power loss after it")
struct FailedSyncTests {
    /// One life of a process: it writes with and without waiting for the disk, and writes the log
    /// back now and then.
    ///
    /// - Parameter diesOfFailure: whether it closes nothing where something fails.
    private func live(
        _ script: DiskScript, _ number: Int, _ foreign: [EncodedTransaction],
        diesOfFailure: Bool = false
    ) throws {
        let coordinator = try script.open(checkpointPages: 6)
        defer { coordinator.close() }
        do {
            for index in 0..<2 {
                _ = try coordinator.apply(Array(foreign.dropFirst(number * 2 + index).prefix(1)))
                try script.save("life \(number), save \(index)", in: coordinator)
            }
        } catch {
            if diesOfFailure, !script.disk.isPowerLost { script.disk.kill() }
            throw error
        }
    }

    @Test("A sync that fails in a checkpoint stops the writer, though the commit needed none")
    func checkpoint() throws {
        let foreign = try DiskScript.foreignTransactions(20)
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open(checkpointPages: 30)
        // The log starts over with it, and is synced.
        try script.save("one", in: coordinator)
        let syncs = script.disk.syncCount
        script.disk.arm(.syncError, afterOperations: 0)
        let error = #expect(throws: CoordinatorError.self) {
            for transaction in foreign { _ = try coordinator.apply([transaction]) }
        }
        #expect(error?.code == .inputOutput)
        #expect(error?.message.contains("disk I/O error") == true)
        #expect(script.disk.syncCount == syncs + 1)
        #expect(throws: CoordinatorError.self) { try script.save("two", in: coordinator) }
        coordinator.close()
        try script.check()
    }

    @Test("What the next process saves outlives the power, though the log before it was not synced")
    func nextProcess() throws {
        let foreign = try DiskScript.foreignTransactions(3)
        for seed in 0..<8 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: seed))
            let first = try script.open()
            _ = try first.apply(foreign)
            script.disk.arm(.syncError, afterOperations: 0)
            #expect(throws: CoordinatorError.self) { try script.save("one", in: first) }
            script.disk.kill()
            first.close()
            let second = try script.open()
            try script.save("two", in: second)
            script.disk.losePower(seed: seed)
            second.close()
            #expect(throws: Never.self, "seed \(seed)") { try script.check() }
        }
    }

    @Test(
        "What was written back and not synced is not believed once a sync of the file has failed",
        arguments: [false, true])
    func halfWrittenBack(isClosing: Bool) throws {
        let foreign = try DiskScript.foreignTransactions(4)
        var failures = 0
        for struck in 0..<80 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: struck))
            let coordinator = try script.open(checkpointPages: 25)
            try script.save("one", size: 20_000, in: coordinator)
            _ = try withExtendedLifetime(coordinator.pinCurrentGeneration()) {
                // The log is written back up to what the pin shows.
                try script.save("two", size: 60_000, in: coordinator)
            }
            script.disk.arm(.syncError, afterOperations: struck)
            do {
                for transaction in foreign {
                    try apply(transaction, to: coordinator, isClosing: isClosing)
                }
            } catch { failures += 1 }
            script.disk.disarm()
            coordinator.close()
            script.disk.losePower(seed: struck)
            #expect(throws: Never.self, "sync after \(struck)") { try script.check() }
        }
        #expect(failures > 5)
    }

    /// - Parameter isClosing: whether who hears of a failure closes the store at once, before the
    ///   writer has ended what it does after one.
    private func apply(
        _ transaction: EncodedTransaction, to coordinator: PersistentStoreCoordinator,
        isClosing: Bool
    ) throws {
        guard isClosing else {
            _ = try coordinator.apply([transaction])
            return
        }
        let writer = try #require(coordinator.writer)
        let failure = Mutex<(any Error)?>(nil)
        writer.runBlocking(
            .apply([transaction]) { result in
                guard case .failure(let error) = result else { return }
                writer.stop(CoordinatorError(.notWritable, "The store was closed."))
                failure.withLock { $0 = error }
            })
        if let failure = failure.withLock(\.self) { throw failure }
    }

    @Test("Whichever sync fails, and whenever the power goes then, nothing acknowledged is lost")
    func sweep() throws {
        let foreign = try DiskScript.foreignTransactions(6)
        let whole = try DiskScript(SimulatedDisk(seed: 1))
        try live(whole, 0, foreign)
        let operations = whole.disk.operationCount
        var struck = 0
        for failed in stride(from: 0, to: operations, by: 3) {
            for pause in stride(from: 0 as UInt64, to: 40, by: 4) {
                let script = try DiskScript(SimulatedDisk(seed: failed))
                script.disk.arm(.syncError, afterOperations: failed)
                script.disk.arm(.powerLoss, afterOperations: failed + 1 + pause)
                for life in 0..<3 where !script.disk.isPowerLost {
                    try? live(script, life, foreign, diesOfFailure: failed.isMultiple(of: 2))
                    if !script.disk.isPowerLost { script.disk.kill() }
                }
                if script.disk.isPowerLost { struck += 1 }
                script.disk.losePower(seed: failed * 64 + pause)
                script.disk.disarm()
                #expect(throws: Never.self, "sync after \(failed), power \(pause) later") {
                    try script.check()
                }
            }
        }
        #expect(struck > 100)
    }
}
