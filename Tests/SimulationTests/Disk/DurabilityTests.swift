// Is what is called durable on the disk? Each of these once was not, and the simulator showed it.

import Coordinator
import Merge
import Replication
import Simulation
import Testing

@Suite("Durability")
struct DurabilityTests {
    /// Loses the power in several ways and gives what the store then holds each time.
    private func afterPowerLoss(
        _ body: (DiskScript, PersistentStoreCoordinator) throws -> VersionVector
    ) throws {
        let foreign = try DiskScript.foreignTransactions(3)
        for seed in 0..<6 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: seed))
            let coordinator = try script.open()
            _ = try coordinator.apply(foreign)
            let promised = try body(script, coordinator)
            script.disk.losePower(seed: seed)
            coordinator.close()
            let reopened = try script.open()
            defer { reopened.close() }
            #expect(try reopened.currentToken.versionVector.covers(promised), "seed \(seed)")
        }
    }

    @Test("A save after another node's transactions waits for the disk again")
    func saveAfterApply() throws {
        try afterPowerLoss { script, coordinator in
            try script.save("one", in: coordinator)
            return try coordinator.currentToken.versionVector
        }
    }

    @Test("Making durable what was applied waits for the disk though no row changes by it")
    func makeDurable() throws {
        try afterPowerLoss { _, coordinator in
            try coordinator.makeDurable()
            return coordinator.durableVector
        }
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        defer { coordinator.close() }
        let before = script.disk.syncCount
        try coordinator.makeDurable()
        #expect(script.disk.syncCount > before)
    }

    @Test("A save that comes to nothing makes nothing durable")
    func emptySave() throws {
        try afterPowerLoss { _, coordinator in
            let applied = try coordinator.currentToken.versionVector
            _ = try coordinator.save(SaveRequest(operations: [])) as SaveResult
            #expect(coordinator.durableVector != applied)
            return coordinator.durableVector
        }
    }

    @Test("A backup put back within one incarnation is not taken for the node's own store")
    func backupWithinAnIncarnation() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try script.save("one", in: coordinator)
        let backup = script.disk.image()
        try script.save("two", in: coordinator)
        let recorded = try coordinator.recordStanding()
        #expect(recorded == coordinator.durableVector)
        let beside = script.disk.image().files.filter { $0.name.hasSuffix("-incarnation") }
        let store = backup.files.filter { !$0.name.hasSuffix("-incarnation") }
        script.disk.kill()
        coordinator.close()
        script.disk.restore(DiskImage(files: store + beside))
        let restored = try script.open()
        defer { restored.close() }
        #expect(restored.recovery == .restored)
    }

    @Test("What was recorded by a process that was killed does not look like a loss")
    func recordedAndKilled() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try coordinator.vouch()
        try script.save("one", in: coordinator)
        _ = try coordinator.recordStanding()
        try script.save("two", in: coordinator)
        script.disk.losePower(seed: 3)
        coordinator.close()
        let reopened = try script.open()
        defer { reopened.close() }
        #expect(reopened.recovery == .none)
    }
}
