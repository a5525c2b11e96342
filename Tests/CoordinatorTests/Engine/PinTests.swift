import Coordinator
import Foundation
import Merge
import Synchronization
import TestSupport
import Testing

/// Pinned generations at the coordinator (DESIGN section 7).
@Suite struct PinTests {
    private let node: EngineNode
    private let other: EngineNode

    init() throws { (node, other) = try EngineNode.pair() }

    private func names(_ pin: GenerationPin?) throws -> [PropertyValue] {
        let position = try #require(try node.entity("Tag").position(of: "name"))
        return try node.coordinator.read(pin) {
            try $0.fetch(FetchRequest("Tag")).map { $0.values[position] }
        }
    }

    @Test("Pins of one generation share one pin")
    func shared() throws {
        let first = try node.coordinator.pinCurrentGeneration()
        let second = try node.coordinator.pinCurrentGeneration()
        #expect(first === second)
        #expect(node.coordinator.pinStatus.count == 1)
        try node.insert("Tag")
        let third = try node.coordinator.pinCurrentGeneration()
        #expect(third !== first)
        #expect(node.coordinator.pinStatus.count == 2)
        #expect(try node.coordinator.pin(first.token) === first)
    }

    /// Reads through one pin take turns, and a verification reads for minutes.
    @Test("A verification shares no pin: it waits for no reader of one, and none for it")
    func verifiedApart() async throws {
        let pin = try node.coordinator.pinCurrentGeneration()
        let coordinator = node.coordinator
        let (isReading, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        async let reading: Void = onOwnThread {
            try coordinator.read(pin) { _ in
                isReading.signal()
                mayEnd.wait()
            }
        }
        defer { mayEnd.signal() }
        try await onOwnThread { isReading.wait() }
        #expect(try coordinator.verify().isOK)
        #expect(try coordinator.pinCurrentGeneration() === pin)
        #expect(coordinator.pinStatus.count == 1)
        mayEnd.signal()
        try await reading
    }

    @Test("A pinned generation never changes, whatever is saved or merged")
    func unchanged() throws {
        let id = try node.insert("Tag", ["name": .string("a")])
        try exchange(node, other)
        let pin = try node.coordinator.pinCurrentGeneration()
        let digest = try node.coordinator.currentDigest
        try other.update(id, ["name": .string("merged")])
        try node.update(id, ["name": .string("saved")])
        try exchange(node, other)
        try node.delete(id)
        #expect(try names(pin) == [.string("a")])
        #expect(try names(nil).isEmpty)
        #expect(try node.coordinator.read(pin) { try $0.digest } == digest)
        #expect(
            try node.coordinator.read(pin) { try $0.token.versionVector }
                == pin.token.versionVector)
    }

    @Test("A pin goes with its last reference, and its generation cannot be pinned again")
    func released() throws {
        var pin: GenerationPin? = try node.coordinator.pinCurrentGeneration()
        let token = try #require(pin).token
        try node.insert("Tag")
        pin = nil
        #expect(node.coordinator.pinStatus.count == 0)
        #expect(try node.code { _ = try node.coordinator.pin(token) } == .queryGenerationExpired)
        let current = try node.coordinator.currentToken
        #expect(try node.coordinator.pin(current).token.generation == current.generation)
    }

    @Test("There is a limit to pins, and released ones make room")
    func limit() throws {
        var pins: [GenerationPin] = []
        for _ in 0..<128 {
            pins.append(try node.coordinator.pinCurrentGeneration())
            try node.insert("Tag")
        }
        #expect(try node.code { _ = try node.coordinator.pinCurrentGeneration() } == .limitExceeded)
        #expect(try names(pins[3]).count == 3)
        pins.removeFirst(10)
        pins.append(try node.coordinator.pinCurrentGeneration())
        #expect(node.coordinator.pinStatus.count == 119)
    }

    @Test("A pin is given up once it is too old by a clock that nobody sets")
    func aged() throws {
        let wall = Mutex<UInt64>(1_800_000_000_000)
        let now = Mutex<UInt64>(5_000)
        node.close()
        node.configure = {
            $0.pinLimitMilliseconds = 1_000
            $0.wallMilliseconds = { wall.withLock { $0 } }
            $0.monotonicMilliseconds = { now.withLock { $0 } }
        }
        try node.open()
        let pin = try node.coordinator.pinCurrentGeneration()
        try node.insert("Tag")
        for step in [Int64(86_400_000), -172_800_000] {
            wall.withLock { $0 = UInt64(Int64($0) + step) }
            #expect(node.coordinator.maintain() == 0)
            #expect(node.coordinator.pinStatus.oldestAgeMilliseconds == 0)
        }
        now.withLock { $0 += 1_000 }
        #expect(node.coordinator.maintain() == 0)
        #expect(node.coordinator.pinStatus.oldestAgeMilliseconds == 1_000)
        now.withLock { $0 += 1 }
        #expect(node.coordinator.maintain() == 1)
        #expect(pin.isExpired)
        #expect(try node.code { _ = try names(pin) } == .queryGenerationExpired)
    }

    @Test("The second to pin a generation keeps it as long as the first")
    func agedAndShared() throws {
        let now = Mutex<UInt64>(5_000)
        node.close()
        node.configure = {
            $0.pinLimitMilliseconds = 1_000
            $0.monotonicMilliseconds = { now.withLock { $0 } }
        }
        try node.open()
        let first = try node.coordinator.pinCurrentGeneration()
        now.withLock { $0 += 900 }
        let second = try node.coordinator.pinCurrentGeneration()
        #expect(first === second)
        try node.insert("Tag")
        now.withLock { $0 += 1_000 }
        // To read through a pin is not to pin.
        #expect(try node.coordinator.pin(second.token) === second)
        #expect(node.coordinator.maintain() == 0)
        // A context that takes it for its own has it as long.
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait { try context.setQueryGeneration(from: second.token) }
        now.withLock { $0 += 1_000 }
        #expect(node.coordinator.maintain() == 0)
        now.withLock { $0 += 1 }
        #expect(node.coordinator.maintain() == 1)
        #expect(second.isExpired)
    }

    @Test("The log's space is used again once no pin holds it")
    func reclaimed() throws {
        let id = try node.insert("Tag")
        let text = String(repeating: "x", count: 100_000)
        func write(_ times: Int) throws {
            for number in 0..<times { try node.update(id, ["name": .string("\(number)" + text)]) }
        }
        var pin: GenerationPin? = try node.coordinator.pinCurrentGeneration()
        try write(250)
        let held = node.coordinator.storeSizes().walFileBytes
        #expect(held > 20_000_000)
        #expect(try names(pin) == [.null])
        pin = nil
        try write(250)
        #expect(node.coordinator.storeSizes().walFileBytes < held * 3 / 2)
        #expect(node.coordinator.storeSizes().walBytes < held)
    }

    @Test("The log's file shrinks again once no pin holds it, with the saves that follow")
    func shrunk() throws {
        node.close()
        node.configure = { $0.checkpointPages = 100 }
        try node.open()
        let id = try node.insert("Tag")
        let text = String(repeating: "x", count: 100_000)
        var pin: GenerationPin? = try node.coordinator.pinCurrentGeneration()
        for number in 0..<50 { try node.update(id, ["name": .string("\(number)" + text)]) }
        #expect(try names(pin) == [.null])
        let limit: UInt64 = 2 * 100 * 4_096
        #expect(node.coordinator.storeSizes().walFileBytes > 5 * limit)
        pin = nil
        // One writes the log back to its end, the next starts it over.
        for name in ["a", "b"] { try node.update(id, ["name": .string(name)]) }
        #expect(node.coordinator.storeSizes().walFileBytes <= limit)
        #expect(try names(nil) == [.string("b")])
    }

    /// A checkpoint after a commit gets no further than the oldest reader, and there always is one.
    @Test("The log's space is used again though readers overlap without a pause")
    func reclaimedBesideReaders() throws {
        node.close()
        node.configure = {
            $0.checkpointPages = 100
            // Readers hold a read for a moment only, but it is the machine that says when they go on.
            $0.logRestartPatienceMilliseconds = 10_000
        }
        try node.open()
        let overdue: UInt64 = 3 * 100 * 4_096
        let id = try node.insert("Tag")
        let coordinator = node.coordinator
        let text = String(repeating: "x", count: 20_000)
        let isOver = Atomic(false)
        let ended = DispatchGroup()
        let mayEnd = [DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)]
        // Each read ends only after one of the other thread has begun.
        for number in 0..<2 {
            ended.enter()
            Thread.detachNewThread {
                while !isOver.load(ordering: .relaxed) {
                    try? coordinator.read {
                        _ = try $0.token
                        mayEnd[1 - number].signal()
                        usleep(1_000)
                        mayEnd[number].wait()
                    }
                }
                mayEnd[1 - number].signal()
                ended.leave()
            }
        }
        defer {
            isOver.store(true, ordering: .relaxed)
            ended.wait()
        }
        for number in 0..<2_000 where coordinator.storeSizes().walBytes <= overdue {
            try node.update(id, ["name": .string("\(number)" + text)])
        }
        try #require(coordinator.storeSizes().walBytes > overdue)
        // As a node does each second, until it has waited for all readers from before. What follows the next
        // commit starts the log over.
        for _ in 0..<30 where coordinator.storeSizes().walBytes >= overdue / 4 {
            #expect(coordinator.maintain() == 0)
            for number in 0..<2 { try node.update(id, ["name": .string("\(number)" + text)]) }
        }
        #expect(coordinator.storeSizes().walBytes < overdue / 4)
    }
}
