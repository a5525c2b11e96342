import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// `tributary inspect` on a terminal, with real nodes.
    @Suite("The inspector") struct InspectTests {}
}

extension EndToEnd.InspectTests {
    private static let leaves = "\u{1B}[?1049l"
    private static let enters = "\u{1B}[?1049h"

    private func arguments(_ cluster: TestCluster) throws -> [String] {
        [try BuiltProgram.find().path, "inspect", "--node", cluster.node(1).url]
    }

    /// Two nodes where two people changed one property at once.
    private func withConflict(
        of entity: String, _ body: (TestCluster, _ uri: String) async throws -> Void
    ) async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let answer = try await cluster.node(1).save(
                .insert(entity, id: "@ada", ["name": "Ada", "a": "555-0"]))
            let uri = try answer.uri("@ada")
            try await cluster.waitForConvergence()
            await cluster.partition([[1], [2]])
            try await cluster.node(1).save(.update(uri, ["a": "555-1"]))
            try await cluster.node(2).save(.update(uri, ["a": "555-2"]))
            await cluster.heal()
            try await cluster.waitForConvergence()
            try await body(cluster, uri)
        }
    }

    private func value(_ node: NodeHandle, _ entity: String) async throws -> String? {
        try await node.objects(entity).first?.value("a")?.string
    }

    @Test("A newcomer finds one changed phone number, takes a side, and undoes it")
    func resolves() async throws {
        try await withConflict(of: "Errors") { cluster, _ in
            try await PseudoTerminal.with(try arguments(cluster)) { terminal in
                try await terminal.wait(for: "1 waits for a decision")
                try await terminal.wait(for: "\"555-2\"")
                try await terminal.wait(for: "before   \"555-0\"")
                terminal.press("2")
                try await terminal.wait(for: "becomes \"555-2\"")
                terminal.press("\r")
                try await terminal.wait(for: "Done.")
                try await terminal.wait(for: "None waits for a decision")
                try await cluster.waitForConvergence()
                #expect(try await value(cluster.node(2), "Errors") == "555-2")
                try await terminal.wait(for: "by eva")
                terminal.press("u")
                try await terminal.wait(for: "is written again")
                terminal.press("\r")
                try await terminal.wait(for: "Done.")
                try await cluster.waitForConvergence()
                #expect(try await value(cluster.node(2), "Errors") == "555-1")
                terminal.press("l")
                try await terminal.wait(for: "tributary conflicts undo")
                terminal.press("q")
                #expect(try await terminal.waitForExit() == 0)
                #expect(terminal.raw.hasSuffix(Self.leaves))
                #expect(terminal.isCooked)
            }
        }
    }

    @Test("What others save comes by itself, and a lost node is told of until it is back")
    func follows() async throws {
        try await withConflict(of: "Latest") { cluster, uri in
            try await PseudoTerminal.with(try arguments(cluster)) { terminal in
                try await terminal.wait(for: "Latest.a")
                await cluster.partition([[1], [2]])
                try await cluster.node(1).save(.update(uri, ["b": "here"]))
                try await cluster.node(2).save(.update(uri, ["b": "there"]))
                await cluster.heal()
                try await cluster.waitForConvergence()
                try await terminal.wait(for: "Latest.b")
                _ = try await cluster.node(1).terminate()
                try await terminal.wait(for: "No answer for")
                try await cluster.node(1).start()
                try await terminal.wait(for: "answers again after")
                try await terminal.wait(for: "● live")
            }
        }
    }

    @Test("Another size of the terminal is filled at once")
    func resizes() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            try await PseudoTerminal.with(try arguments(cluster)) { terminal in
                try await terminal.wait(for: "No conflicts.")
                terminal.resize(columns: 132, rows: 43)
                try await terminal.wait(for: "VALUES")
                #expect(terminal.lines[42].contains("all keys"))
                terminal.resize(columns: 20, rows: 5)
                try await terminal.wait(for: "Too small")
                terminal.resize(columns: 60, rows: 16)
                try await eventually("the keys were in row 16") {
                    terminal.lines[15].contains("all keys")
                }
            }
        }
    }

    @Test("Ctrl-Z gives the terminal back, and fg goes on")
    func suspends() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            // With job control a shell runs it in a group of its own, and goes on when that stops.
            let line =
                "\(try arguments(cluster).joined(separator: " ")); echo STOP''PED; read x; fg >/dev/null; echo EN''DED"
            try await PseudoTerminal.with(["/bin/sh", "-m", "-c", line]) { terminal in
                try await terminal.wait(for: "No conflicts.")
                #expect(!terminal.isCooked)
                terminal.press("\u{1A}")
                try await eventually("it had stopped") { terminal.raw.contains("STOPPED") }
                #expect(terminal.raw.contains(Self.leaves))
                #expect(terminal.isCooked)
                let before = terminal.raw.utf8.count
                terminal.press("\r")
                try await eventually("it was drawn again") {
                    let new = terminal.raw.utf8.dropFirst(before)
                    let text = String(decoding: Array(new), as: UTF8.self)
                    return text.contains(Self.enters) && text.contains("No conflicts.")
                }
                #expect(!terminal.isCooked)
                terminal.press("q")
                try await eventually("it had ended") { terminal.raw.contains("ENDED") }
                #expect(terminal.isCooked)
            }
        }
    }

    @Test(
        "A signal that ends it leaves the terminal as it was", arguments: [SIGTERM, SIGINT, SIGHUP])
    func ends(by signal: Int32) async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            try await PseudoTerminal.with(try arguments(cluster)) { terminal in
                try await terminal.wait(for: "No conflicts.")
                terminal.send(signal)
                #expect(try await terminal.waitForExit() == 0)
                #expect(terminal.raw.contains(Self.leaves))
                #expect(terminal.isCooked)
            }
        }
    }

    @Test("Without UTF-8 only ASCII is drawn, and with NO_COLOR no colour")
    func plain() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let environment = ["LANG": "C", "NO_COLOR": "1"]
            try await PseudoTerminal.with(try arguments(cluster), environment: environment) {
                terminal in
                try await terminal.wait(for: "* live")
                try await terminal.wait(for: "No conflicts.")
                #expect(terminal.raw.utf8.allSatisfy { $0 < 0x80 })
                #expect(terminal.raw.firstMatch(of: /\[[0-9;]*3[1-6]m/) == nil)
                #expect(terminal.raw.contains("\u{1B}[0;7m"))
            }
        }
    }

    @Test("A store's file is shown, and nothing can be decided")
    func file() async throws {
        try await withConflict(of: "Errors") { cluster, _ in
            _ = try await cluster.node(1).terminate()
            let program = try BuiltProgram.find().path
            let line = [program, "inspect", "--store", cluster.node(1).store.path]
            try await PseudoTerminal.with(line) { terminal in
                try await terminal.wait(for: "reading only")
                try await terminal.wait(for: "\"555-2\"")
                terminal.press("1")
                try await terminal.wait(for: "ask a node")
            }
        }
    }
}
