import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("With a full disk")
    struct FullDiskTests {}
}

extension EndToEnd.FullDiskTests {
    /// Runs a body with a cluster whose node 2 has its store on a small file system of its own.
    private func withSmallDisk(
        megabytes: Int, _ body: (TestCluster, SmallVolume) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-disk-\(UUID().uuidString)")
        let volume = try SmallVolume(at: folder, megabytes: megabytes)
        do {
            try await TestCluster.with(nodes: 2, storeFolders: [2: folder]) { cluster in
                try await body(cluster, volume)
            }
        } catch {
            volume.unmount()
            throw error
        }
        volume.unmount()
    }

    private func save(
        _ saveID: String, bytes: Int, on node: NodeHandle
    ) async throws -> (status: Int, code: String, record: SaveRecord) {
        let operations = (0..<2).map {
            JSONValue.insert(
                "Latest",
                [
                    "name": "\(saveID)-\($0)", "a": .string(saveID),
                    "b": .string(String(repeating: "x", count: bytes)),
                ])
        }
        let (status, body) = try await node.ask(
            "POST", "/v1/save",
            .object(["operations": .array(operations), "saveID": .string(saveID)]))
        return (
            status, body.code,
            SaveRecord(
                node: node.number, saveID: saveID, transaction: body.text("transaction"),
                operations: operations)
        )
    }

    /// Saves on a node until its disk is full; gives what it acknowledged.
    private func fill(_ node: NodeHandle, prefix: String) async throws -> [SaveRecord] {
        var records: [SaveRecord] = []
        // Coarsely, then finely, so that in the end nothing fits.
        for bytes in [20_000, 2_000, 10] {
            for index in 0..<400 {
                let answer = try await save("\(prefix)-\(bytes)-\(index)", bytes: bytes, on: node)
                guard answer.status == 200 else {
                    #expect(answer.status == 507 && answer.code == "diskFull", "\(answer)")
                    break
                }
                records.append(answer.record)
            }
        }
        return records
    }

    @Test(
        "saves are refused, reads go on, nothing is applied by half, and with space all goes on",
        MachineAbilities.needed(.mounting))
    func refusesSaves() async throws {
        try await withSmallDisk(megabytes: 2) { cluster, volume in
            let (peer, full) = (cluster.node(1), cluster.node(2))
            var records = [try await save("first", bytes: 10, on: peer).record]
            try await cluster.waitForConvergence()
            records += try await fill(full, prefix: "fill")
            let count = 2 * records.count
            #expect(records.count > 5)
            #expect(try await full.count("Latest") == count)
            // The peer's save cannot be applied there. It is not, nor is a part of it.
            records.append(try await save("of the peer", bytes: 20_000, on: peer).record)
            for _ in 0..<6 {
                #expect(try await full.count("Latest") == count)
                #expect(try await save("refused", bytes: 20_000, on: full).status == 507)
                try await Task.sleep(for: .milliseconds(200))
            }
            #expect(full.process?.isRunning == true)
            try await eventually("node 2 told that it cannot apply") {
                let alarms = try await full.status()["alarms"]?.array ?? []
                return alarms.contains { $0.object?.text("name") == "notApplied" }
            }
            try await eventually("node 1 had all that node 2 had acknowledged") {
                try await peer.count("Latest") == count + 2
            }
            try volume.grow(toMegabytes: 64)
            try await eventually("node 2 took saves again") {
                let answer = try await save("again", bytes: 20_000, on: full)
                if answer.status == 200 { records.append(answer.record) }
                return answer.status == 200
            }
            try await ClusterInvariants.expect(cluster, records)
            #expect(try await full.count("Latest") == count + 4)
        }
    }

    @Test(
        "a node that is killed while its disk is full has what it acknowledged",
        MachineAbilities.needed(.mounting))
    func survivesKill() async throws {
        try await withSmallDisk(megabytes: 2) { cluster, volume in
            let full = cluster.node(2)
            let records = try await fill(full, prefix: "fill")
            try await full.kill()
            // It may or may not find room enough to start; it must not lose anything by trying.
            if try await full.startUnlessEnded() {
                #expect(try await full.count("Latest") == 2 * records.count)
                try await full.kill()
            } else {
                let code = try await full.process?.waitForExit()
                #expect(code == 9, "A full disk has exit code 9: \(code ?? 0)")
            }
            try volume.grow(toMegabytes: 64)
            try await full.start()
            #expect(try await full.count("Latest") == 2 * records.count)
            try await ClusterInvariants.expect(cluster, records)
        }
    }
}
