// Is every fault of the disk told as what it is, and nothing lost by it that was acknowledged?

import Coordinator
import Merge
import Replication
import Simulation
import Testing

@Suite("Faults of the simulated disk")
struct DiskFaultTests {
    @Test(
        "Whenever the power goes or the process dies, all that was acknowledged is there",
        arguments: [DiskFault.powerLoss, .kill])
    func sweep(_ fault: DiskFault) throws {
        let foreign = try DiskScript.foreignTransactions(3)
        let whole = try DiskScript(SimulatedDisk(seed: 1))
        try whole.run(foreign)
        let operations = whole.disk.operationCount
        #expect(operations > 50)
        for struck in 0..<operations {
            for seed in 0..<(fault == .powerLoss ? 2 as UInt64 : 1) {
                let script = try DiskScript(SimulatedDisk(seed: seed))
                script.disk.arm(fault, afterOperations: struck)
                // It fails, but where the fault strikes while closing, which tells nobody.
                _ = try? script.run(foreign)
                var generator = SeededGenerator(seed: struck * 8 + seed)
                if fault == .powerLoss {
                    #expect(script.disk.isPowerLost)
                    script.disk.losePower(&generator)
                } else {
                    #expect(script.disk.isKilled)
                    script.disk.kill()
                }
                #expect(throws: Never.self, "operation \(struck), seed \(seed)") {
                    try script.check()
                }
                // And what the check saved is on the disk too, though the power goes again.
                script.disk.losePower(&generator)
                try script.check()
            }
        }
    }

    @Test("A save on a full disk fails as that, and those after it are saved")
    func full() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try script.save("one", in: coordinator)
        script.disk.arm(.full, afterOperations: 0)
        #expect(code { try script.save("two", size: 50_000, in: coordinator) } == .diskFull)
        script.disk.disarm()
        try script.save("three", size: 50_000, in: coordinator)
        let used = script.disk.image().files.reduce(0) { $0 + $1.bytes.count }
        script.disk.capacity = UInt64(used) + 100_000
        #expect(code { try script.save("four", size: 200_000, in: coordinator) } == .diskFull)
        try script.save("five", in: coordinator)
        script.disk.capacity = nil
        try script.save("six", in: coordinator)
        coordinator.close()
        try script.check()
    }

    @Test(
        "A large transaction of another node that a full disk keeps out is taken once it has room")
    func fullWhileApplying() throws {
        let elsewhere = try DiskScript(SimulatedDisk(seed: 9))
        let other = try elsewhere.open(node: 2)
        let foreign = try Self.large(elsewhere, other)
        other.close()
        var isFull = false
        for struck in 0..<200 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: struck))
            let coordinator = try script.open()
            script.disk.arm(.full, afterOperations: struck)
            // Tried again, as the replicator does.
            var codes: [CoordinatorError.Code] = []
            for _ in 0..<3 {
                var rejected = 0
                let failure = code { rejected = try coordinator.apply(foreign).rejected.count }
                #expect(rejected == 0, "operation \(struck)")
                guard let failure else { break }
                codes.append(failure)
            }
            #expect(codes.allSatisfy { $0 == .diskFull }, "operation \(struck): \(codes)")
            script.disk.disarm()
            if try !coordinator.currentToken.versionVector.contains(foreign[0].dot) {
                #expect(try coordinator.apply(foreign).rejected.isEmpty, "operation \(struck)")
            }
            #expect(try coordinator.currentToken.versionVector.contains(foreign[0].dot))
            #expect(try coordinator.verify().isOK)
            coordinator.close()
            try script.check()
            isFull = isFull || !codes.isEmpty
            if codes.isEmpty { break }
        }
        #expect(isFull)
    }

    /// One save of twenty new objects, as other nodes get it.
    private static func large(
        _ script: DiskScript, _ coordinator: PersistentStoreCoordinator
    ) throws -> [EncodedTransaction] {
        let request = SaveRequest(
            operations: try (1...20).map { number in
                var insertion = try script.insertion("note \(number)").operations[0]
                insertion.row = RowID(-Int64(number))
                return insertion
            })
        _ = try coordinator.save(request) as SaveResult
        return try coordinator.read {
            try $0.transactions(notCoveredBy: VersionVector(), byteLimit: 1 << 20).transactions
        }.map { try EncodedTransaction(decoding: $0) }
    }

    @Test("The answer to a save is given again by its ID, whatever hinders saves now")
    func repeatedWhileHindered() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        defer { coordinator.close() }
        let first = try script.save("one", in: coordinator)
        func repeated() throws -> SaveResult {
            try coordinator.save(script.insertion("one", saveID: "one"))
        }
        script.disk.arm(.full, afterOperations: 0)
        #expect(code { try script.save("two", size: 50_000, in: coordinator) } == .diskFull)
        #expect(try repeated().transaction == first.transaction)
        // The same where it waits in one group with what does not fit.
        let together = coordinator.saveTogether([
            try script.insertion("one", saveID: "one"),
            try script.insertion("three", size: 50_000, saveID: "three"),
        ])
        #expect(try together[0].get().transaction == first.transaction)
        #expect(code { _ = try together[1].get() } == .diskFull)
        script.disk.disarm()
        coordinator.setClockOff(true)
        #expect(try repeated().transaction == first.transaction)
        #expect(code { try script.save("four", in: coordinator) } == .clockDrift)
    }

    @Test("A failed sync leaves the outcome open and stops the writer; nothing is lost after it")
    func syncError() throws {
        for seed in 0..<8 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: seed))
            let coordinator = try script.open()
            try script.save("one", in: coordinator)
            script.disk.arm(.syncError, afterOperations: 0)
            #expect(code { try script.save("two", in: coordinator) } == .outcomeUnknown)
            #expect(coordinator.isOutcomeUnknown)
            #expect(code { try script.save("three", in: coordinator) } == .outcomeUnknown)
            // A client that repeats it does not hear that nothing was saved, because nobody knows.
            #expect(code { try script.save("two", in: coordinator) } == .outcomeUnknown)
            coordinator.close()
            try script.check()
            script.disk.losePower(seed: seed)
            try script.check()
        }
    }

    @Test("What could not be recorded of recovery is recorded with the next that is applied")
    func owedRecovery() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        script.disk.arm(.full, afterOperations: 0)
        #expect(code { try coordinator.outgrow() } == .diskFull)
        script.disk.disarm()
        _ = try coordinator.apply(try DiskScript.foreignTransactions(1))
        coordinator.close()
        let opened = try script.open()
        #expect(opened.recovery == .restored)
        try opened.vouch()
        _ = try opened.apply(try DiskScript.foreignTransactions(2))
        #expect(opened.recovery == .none)
        opened.close()
    }

    @Test("That a store is vouched for is recorded likewise, and then outlives the power")
    func vouched() throws {
        for isFull in [false, true] {
            let script = try DiskScript(SimulatedDisk(seed: 2))
            let coordinator = try script.open()
            if isFull {
                script.disk.arm(.full, afterOperations: 0)
                #expect(code { try coordinator.vouch() } == .diskFull)
                script.disk.disarm()
                _ = try coordinator.apply(try DiskScript.foreignTransactions(1))
                coordinator.close()
            } else {
                try coordinator.vouch()
                script.disk.losePower(seed: 3)
                coordinator.close()
            }
            let opened = try script.open()
            #expect(opened.recovery == .none, "full: \(isFull)")
            opened.close()
        }
    }

    @Test("Where the log could not be put on the disk, closing writes nothing back")
    func closedAfterFailedSync() throws {
        let foreign = try DiskScript.foreignTransactions(12)
        for seed in 0..<16 as Range<UInt64> {
            let script = try DiskScript(SimulatedDisk(seed: seed))
            let coordinator = try script.open()
            try script.save("one", in: coordinator)
            _ = try coordinator.apply(foreign)
            script.disk.arm(.syncError, afterOperations: 0)
            #expect(code { try coordinator.makeDurable() } == .inputOutput)
            func files() -> [[UInt8]] {
                script.disk.image().files.filter { $0.name.hasPrefix("store.sqlite") }
                    .map(\.bytes)
            }
            let before = files()
            coordinator.close()
            #expect(files() == before)
            // The power goes while the next opening puts the log on the disk.
            script.disk.arm(.powerLoss, afterOperations: 0)
            #expect(throws: CoordinatorError.self) { try script.open() }
            script.disk.losePower(seed: seed)
            let opened = try script.open()
            #expect(try opened.verify().isOK)
            // What is applied again is as it is elsewhere.
            _ = try opened.apply(foreign)
            #expect(try opened.verify().isOK)
            opened.close()
            try script.check()
        }
    }

    @Test("A failed write or read leaves a sound store with all that was acknowledged")
    func writeAndReadErrors() throws {
        let foreign = try DiskScript.foreignTransactions(2)
        let whole = try DiskScript(SimulatedDisk(seed: 1))
        try whole.open().close()
        let creation = whole.disk.operationCount
        try whole.run(foreign)
        for fault in [DiskFault.writeError, .readError] {
            for struck in stride(from: 0, to: whole.disk.operationCount - creation, by: 2) {
                let script = try DiskScript(SimulatedDisk(seed: struck))
                try script.open().close()
                script.disk.arm(fault, afterOperations: struck)
                _ = try? script.run(foreign)
                script.disk.disarm()
                script.disk.kill()
                #expect(throws: Never.self, "\(fault) at \(struck)") { try script.check() }
            }
        }
    }

    @Test("A store whose making failed is made by the next opening")
    func failedMaking() throws {
        let whole = try DiskScript(SimulatedDisk(seed: 1))
        try whole.open().close()
        var refusals: [UInt64] = []
        for struck in 0..<whole.disk.operationCount {
            let script = try DiskScript(SimulatedDisk(seed: struck))
            script.disk.arm(.writeError, afterOperations: struck)
            try? script.open().close()
            script.disk.disarm()
            if code({ try script.check() }) != nil { refusals.append(struck) }
        }
        #expect(refusals.isEmpty)
    }

    @Test("A small file is replaced whole, or not at all")
    func replace() throws {
        let disk = SimulatedDisk(seed: 1)
        let path = disk.path("copy")
        try disk.replace(path, with: [1, 2, 3])
        var generator = SeededGenerator(seed: 1)
        disk.losePower(&generator)
        #expect(disk.bytes(of: "copy") == [1, 2, 3])
        #expect(disk.read(path, from: 1, count: 9) == [2, 3])
        var outcomes: Set<[UInt8]> = []
        for _ in 0..<20 {
            try disk.replace(path, with: [1])
            disk.arm(.powerLoss, afterOperations: 0)
            #expect(code { try disk.replace(path, with: [2]) } == .inputOutput)
            disk.losePower(&generator)
            outcomes.insert(try #require(disk.bytes(of: "copy")))
        }
        #expect(outcomes == [[1], [2]])
        try disk.remove(path)
        try disk.remove(path)
        #expect(disk.size(of: path) == nil)
    }
}
