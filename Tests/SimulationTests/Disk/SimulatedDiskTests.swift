// Does a store on the simulated disk keep what it acknowledged, whatever the disk does to it?

import Coordinator
import Merge
import Replication
import Simulation
import Testing

@Suite("A store on the simulated disk")
struct SimulatedDiskTests {
    @Test("It is saved, read, pinned, closed and opened again")
    func ordinaryLife() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try script.save("one", in: coordinator)
        let pin = try coordinator.pinCurrentGeneration()
        try script.save("two", in: coordinator)
        let request = FetchRequest("Note")
        #expect(try coordinator.read(pin) { try $0.count(request) } == 1)
        #expect(try coordinator.read { try $0.count(request) } == 2)
        #expect(coordinator.storeSizes().walBytes > 0)
        #expect(code { _ = try script.open() } == .storeInUse)
        coordinator.close()
        #expect(script.disk.fileNames.contains("store.sqlite"))
        try script.check()
    }

    @Test("Saves that come together are one group: the disk is waited for once")
    func together() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        defer { coordinator.close() }
        try script.save("alone", in: coordinator)
        let before = script.disk.syncCount
        try script.save("alone again", in: coordinator)
        let alone = script.disk.syncCount - before
        let results = coordinator.saveTogether(try (0..<20).map { try script.insertion("\($0)") })
        #expect(script.disk.syncCount - before - alone == alone)
        let sequences = try results.map { try $0.get().transaction?.sequence ?? 0 }
        #expect(sequences == Array((sequences.first ?? 0)..<(sequences.first ?? 0) + 20))
    }

    @Test("A copied machine, and one put back to a backup, have the bytes of the original")
    func images() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try script.save("one", in: coordinator)
        let image = script.disk.image()
        let copy = SimulatedDisk(seed: 2, image: image)
        #expect(copy.image() == image)
        let copied = try DiskScript(copy).open()
        #expect(try copied.currentToken.versionVector == coordinator.currentToken.versionVector)
        copied.close()
        try script.save("two", in: coordinator)
        script.disk.restore(image)
        #expect(throws: CoordinatorError.self) { try script.save("dead", in: coordinator) }
        #expect(script.disk.image() == image)
        script.disk.wipe()
        #expect(script.disk.fileNames.isEmpty)
    }

    @Test("A process that died neither reads nor writes what its successor has")
    func zombies() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let dead = try script.open()
        try script.save("one", in: dead)
        script.disk.kill()
        let living = try script.open()
        try script.save("two", in: living)
        let image = script.disk.image()
        let request = try script.insertion("dead")
        #expect(throws: CoordinatorError.self) { _ = try dead.save(request) as SaveResult }
        dead.close()
        #expect(script.disk.image() == image)
        try script.save("three", in: living)
        #expect(code { _ = try script.open() } == .storeInUse)
        living.close()
        try script.check()
    }

    @Test("A flipped bit is found at opening or reading, or changes nothing that is used")
    func rot() throws {
        let script = try DiskScript(SimulatedDisk(seed: 1))
        let coordinator = try script.open()
        try script.save("one", in: coordinator)
        coordinator.close()
        #expect(script.disk.flipBit(file: "store.sqlite", offset: 3, bit: 2))
        #expect(!script.disk.flipBit(file: "store.sqlite", offset: 1 << 40, bit: 2))
        #expect(code { _ = try script.open() } == .storeDamaged)
    }

    @Test("The same seed gives the same bytes and the same count of operations")
    func determinism() throws {
        func run() throws -> (DiskImage, UInt64) {
            let script = try DiskScript(SimulatedDisk(seed: 4))
            try script.run([])
            script.disk.arm(.powerLoss, afterOperations: 9)
            _ = try? script.run([])
            script.disk.losePower(seed: 5)
            // The log's salts are of the process's chance, and other tests run beside this one.
            let image = script.disk.image().files.filter { $0.name == "store.sqlite" }
            return (DiskImage(files: image), script.disk.operationCount)
        }
        let first = try run()
        let second = try run()
        #expect(first == second)
    }
}
