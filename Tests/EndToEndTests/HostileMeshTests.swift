import Coordinator
import Foundation
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Against strangers on the mesh's ports")
    struct HostileMeshTests {}
}

/// The most that was seen of something.
private final class Peak: Sendable {
    private let most = Mutex(0)
    var value: Int { most.withLock { $0 } }

    func note(_ value: Int) { most.withLock { $0 = max($0, value) } }
}

extension EndToEnd.HostileMeshTests {
    @Test("garbage on the mesh's ports disturbs nobody")
    func garbageIsIgnored() async throws {
        try await TestCluster.with { cluster in
            let load = try Load(on: cluster.node(2), prefix: "load", clients: 1)
            try await load.waitForAcknowledged(3)
            var generator = SeededGenerator(seed: 11)
            var held: [RawConnection] = []
            for node in cluster.nodes {
                for port in [node.publishPort, node.exchangePort] {
                    for bytes in garbage(&generator) {
                        let connection = try RawConnection(port: port)
                        // The node may close before all is sent, and is right to.
                        try? connection.send(bytes)
                        held.append(connection)
                    }
                }
            }
            try await load.waitForAcknowledged(load.outcome.acknowledged.count + 20)
            await load.stopWhole()
            withExtendedLifetime(held) {}
            try await expectServing(cluster)
        }
    }

    @Test("a frame that claims to be enormous costs no memory")
    func enormousFrames() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            var held: [RawConnection] = []
            for port in [node.publishPort, node.exchangePort] {
                for socketType in ["SUB", "DEALER"] {
                    for _ in 0..<8 {
                        let connection = try RawConnection(port: port)
                        try? connection.send(Greeting.bytes + Greeting.ready(socketType))
                        // A long frame of 2^56 bytes. A few thousand of them come.
                        try? connection.send([0x02, 0x01] + [UInt8](repeating: 0, count: 7))
                        try? connection.send([UInt8](repeating: 0xAA, count: 8192))
                        held.append(connection)
                    }
                }
            }
            try await expectServing(cluster)
            #expect(node.residentBytes - before < 100 << 20)
            withExtendedLifetime(held) {}
        }
    }

    @Test("a message that never ends, and subscriptions without end, cost no memory")
    func endlessMessages() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            // A part of 64 KiB after which the message goes on; a subscription to another topic each time.
            let part: [UInt8] = [0x03] + lengthBytes(65_536) + [UInt8](repeating: 7, count: 65_536)
            var topics = SeededGenerator(seed: 7)
            for (port, socketType) in [(node.exchangePort, "DEALER"), (node.publishPort, "SUB")] {
                let connection = try connection(to: port, as: socketType)
                var isEnded = false
                // 640 MiB of parts, or 64 MiB of subscriptions.
                for number in 0..<10_240 where !isEnded {
                    // At most 250 MiB a second: what comes between two looks is held as well.
                    if number % 16 == 0 { try await Task.sleep(for: .milliseconds(4)) }
                    var bytes = part
                    if socketType == "SUB" {
                        bytes = []
                        for _ in 0..<32 {
                            let topic = (0..<199).map { _ in
                                UInt8.random(in: 0...255, using: &topics)
                            }
                            bytes += [0x00, 200, 1] + topic
                        }
                    }
                    do { try connection.send(bytes) } catch { isEnded = true }
                }
                #expect(isEnded, "\(socketType)")
            }
            try await expectServing(cluster)
            #expect(node.residentBytes - before < 100 << 20, "\(node.residentBytes - before)")
            try await eventually("2 connections had been ended") {
                try await node.metric("tributary_connections_ended_total") ?? 0 >= 2
            }
        }
    }

    /// Empty parts without end: two bytes each on the wire, 64 in the library.
    @Test(
        "empty parts without end cost no more than 64 MiB, and nothing once they are over",
        arguments: [1, 4, 64])
    func emptyParts(connections: Int) async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            let parts = [UInt8]((0..<32_768).flatMap { _ in [0x01, 0x00] as [UInt8] })
            for (port, socketType) in [(node.exchangePort, "DEALER"), (node.publishPort, "SUB")] {
                let peak = Peak()
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<connections {
                        group.addTask {
                            // It comes again when it is thrown out.
                            for _ in 0..<(connections < 64 ? 20 : 3) {
                                guard let stranger = try? connection(to: port, as: socketType)
                                else { continue }
                                for _ in 0..<1_000 {
                                    guard (try? stranger.send(parts)) != nil else { break }
                                    let resident = node.residentBytes
                                    peak.note(resident)
                                }
                            }
                        }
                    }
                }
                let most = peak.value - before
                print("\(connections) connections as \(socketType): \(most >> 20) MiB at most")
                #expect(most < 64 << 20, "\(socketType): \(most)")
            }
            try await eventually(
                "the memory was given back: \((node.residentBytes - before) >> 20) MiB more than before"
            ) {
                node.residentBytes - before < 16 << 20
            }
            try await expectServing(cluster)
        }
    }

    /// A node looks less often where nobody has connected for a while.
    @Test("after a rest, empty parts without end cost at most 96 MiB")
    func emptyPartsAfterRest() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            let parts = [UInt8]((0..<32_768).flatMap { _ in [0x01, 0x00] as [UInt8] })
            let strangers = try (0..<4).map { _ in
                try connection(to: node.exchangePort, as: "DEALER")
            }
            try await Task.sleep(for: .milliseconds(2_500))
            let peak = Peak()
            await withTaskGroup(of: Void.self) { group in
                for stranger in strangers {
                    group.addTask {
                        for _ in 0..<1_000 {
                            guard (try? stranger.send(parts)) != nil else { break }
                            peak.note(node.residentBytes)
                        }
                    }
                }
            }
            print("after a rest: \((peak.value - before) >> 20) MiB at most")
            #expect(peak.value - before < 96 << 20, "\(peak.value - before)")
            try await expectServing(cluster)
        }
    }

    @Test("two thousand connections of one peer cost no memory, and the others are heard")
    func manyConnections() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            var held: [RawConnection] = []
            for (port, socketType) in [(node.exchangePort, "DEALER"), (node.publishPort, "SUB")] {
                for _ in 0..<1_000 {
                    let connection = try RawConnection(port: port)
                    try? connection.send(Greeting.bytes + Greeting.ready(socketType))
                    held.append(connection)
                }
            }
            try await expectServing(cluster)
            #expect(node.residentBytes - before < 100 << 20, "\(node.residentBytes - before)")
            try await eventually("900 connections had been ended") {
                try await node.metric("tributary_connections_ended_total") ?? 0 >= 900
            }
            withExtendedLifetime(held) {}
        }
    }

    /// A raw connection to a mesh port that has shaken hands.
    private func connection(
        to port: Int, as socketType: String, named identity: String? = nil
    ) throws -> RawConnection {
        let connection = try RawConnection(port: port)
        try connection.send(Greeting.bytes + Greeting.ready(socketType, identity: identity))
        // Its own greeting and what it says of itself: the library ends some connections on which
        // more comes before.
        _ = try connection.receive(64)
        _ = try connection.receiveSome(upTo: 256)
        return connection
    }

    @Test("thirty messages that are nearly whole cost no more memory than a few")
    func unfinishedMessages() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let before = node.residentBytes
            let part = [0x03] + lengthBytes(1 << 20) + [UInt8](repeating: 7, count: 1 << 20)
            var held: [RawConnection] = []
            for _ in 0..<30 {
                let connection = try connection(to: node.exchangePort, as: "DEALER")
                for _ in 0..<28 {
                    // As above.
                    try await Task.sleep(for: .milliseconds(4))
                    try? connection.send(part)
                }
                held.append(connection)
            }
            try await eventually("most of them had been ended") {
                try await node.metric("tributary_connections_ended_total") ?? 0 >= 27
            }
            try await expectServing(cluster)
            #expect(node.residentBytes - before < 200 << 20, "\(node.residentBytes - before)")
            withExtendedLifetime(held) {}
        }
    }

    // The library neither reads nor closes a connection any more whose name another one has taken: its
    // descriptor, and a frame that came over it, were kept for as long as the node ran.
    @Test("connections that take over each other's names, and hang up, leave nothing behind")
    func takenNames() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let (memory, descriptors) = (node.residentBytes, node.openDescriptors)
            let frame = [0x02] + lengthBytes(4 << 20) + [UInt8](repeating: 7, count: 4 << 20)
            for _ in 0..<60 {
                let former = try connection(
                    to: node.exchangePort, as: "DEALER", named: "node-3-0123456789abcdef")
                let later = try connection(
                    to: node.exchangePort, as: "DEALER", named: "node-3-0123456789abcdef")
                try await Task.sleep(for: .milliseconds(5))
                try? former.send(frame)
                withExtendedLifetime(later) {}
            }
            try await eventually(
                "there were few descriptors again, and not \(node.openDescriptors)"
            ) {
                node.openDescriptors < descriptors + 20
            }
            try await expectServing(cluster)
            #expect(node.residentBytes - memory < 100 << 20, "\(node.residentBytes - memory)")
        }
    }

    private func lengthBytes(_ count: UInt64) -> [UInt8] {
        withUnsafeBytes(of: count.bigEndian) { Array($0) }
    }

    @Test("frames that are whole but mean nothing are refused, and the peers go on")
    func meaninglessFrames() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            var generator = SeededGenerator(seed: 12)
            let node = cluster.node(1)
            for _ in 0..<10 {
                let connection = try RawConnection(port: node.exchangePort)
                try? connection.send(Greeting.bytes + Greeting.ready("DEALER"))
                for length in [0, 1, 7, 200] {
                    let body = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator)
                    }
                    try? connection.send([0x00, UInt8(length)] + body)
                }
                _ = connection.hasBytes(within: .milliseconds(20))
            }
            try await expectServing(cluster)
        }
    }

    /// What a port scanner, a browser, a broken peer and an attacker may send.
    private func garbage(_ generator: inout SeededGenerator) -> [[UInt8]] {
        let random = (0..<65_536).map { _ in UInt8.random(in: 0...255, using: &generator) }
        return [
            [], [0], Array("GET / HTTP/1.1\r\nHost: x\r\n\r\n".utf8), random,
            Array(Greeting.bytes.prefix(20)), Greeting.bytes,
            Greeting.bytes + random, Greeting.bytes + Greeting.ready("PUB"),
            Greeting.bytes + Greeting.ready("SUB") + random,
            [UInt8](repeating: 0xFF, count: 100_000),
        ]
    }
}

/// How a ZMTP 3.0 connection begins, with the mechanism that needs no keys.
enum Greeting {
    static let bytes = greeting("NULL")

    /// The same with the mechanism that needs keys.
    static let curve = greeting("CURVE")

    private static func greeting(_ mechanism: String) -> [UInt8] {
        var bytes: [UInt8] = [0xFF] + [UInt8](repeating: 0, count: 8) + [0x7F, 3, 0]
        bytes += Array(mechanism.utf8)
        bytes += [UInt8](repeating: 0, count: 20 - mechanism.utf8.count)
        // Not as server, and 31 bytes of filling.
        return bytes + [UInt8](repeating: 0, count: 32)
    }

    /// The command that tells what kind of socket speaks.
    ///
    /// - Parameter identity: what a router is to call it.
    static func ready(_ socketType: String, identity: String? = nil) -> [UInt8] {
        var body = [5] + Array("READY".utf8)
        for (name, value) in [("Socket-Type", socketType), ("Identity", identity)] {
            guard let value else { continue }
            body += [UInt8(name.utf8.count)] + Array(name.utf8)
            body += [0, 0, 0, UInt8(value.utf8.count)] + Array(value.utf8)
        }
        return [0x04, UInt8(body.count)] + body
    }
}
