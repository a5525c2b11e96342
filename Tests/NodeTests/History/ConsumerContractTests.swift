import Coordinator
import Merge
import Node
import Testing

@Suite("Consumers over HTTP")
struct ConsumerContractTests {
    @Test("A consumer is registered, says how far it has read, is listed, and is removed")
    func whole() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let page = try await node.ask("GET", "/v1/history")
            let token = try #require(page["token"]?.string)
            _ = try await node.insertPerson("Eve")
            let put = try await node.ask(
                "PUT", "/v1/consumers/audit", #"{"token": "\#(token)"}"#)
            #expect(put.status == 200)
            #expect(put["name"]?.string == "audit")
            #expect(put["token"]?.string == token)
            #expect(put["behind.transactions"]?.integer == 1)
            #expect((put["behind.ageMilliseconds"]?.integer ?? -1) >= 0)
            #expect(put["expired"] == .boolean(false))
            let list = try await node.ask("GET", "/v1/consumers")
            #expect(list["consumers.0.name"]?.string == "audit")
            let status = try await node.ask("GET", "/v1/status")
            #expect(status["history.consumers.0.name"]?.string == "audit")
            #expect(status["history.transactions"]?.integer == 2)
            // Without a token: all that there is now.
            let now = try await node.ask("PUT", "/v1/consumers/audit")
            #expect(now["behind.transactions"]?.integer == 0)
            #expect(now["behind.ageMilliseconds"] == .null)
            let one = try await node.ask("GET", "/v1/consumers/audit")
            #expect(one["token"] == now["token"])
            #expect(try await node.ask("DELETE", "/v1/consumers/audit").status == 200)
            let gone = try await node.ask("GET", "/v1/consumers/audit")
            #expect(gone.status == 404 && gone.code == "consumerUnknown")
            #expect(try await node.ask("DELETE", "/v1/consumers/audit").status == 404)
        }
    }

    @Test("A token may be as long as those of thousands of incarnations, and no longer")
    func longTokens() async throws {
        try await HTTPTestNode.run { node in
            for (count, status) in [(60_000, 400), (70_000, 414)] {
                let token = String(repeating: "A", count: count)
                let answer = try await node.ask("GET", "/v1/history?after=\(token)")
                #expect(answer.status == status, "\(count)")
            }
        }
    }

    @Test("What is no name, no token, or no field is refused")
    func refused() async throws {
        try await HTTPTestNode.run { node in
            for (path, body) in [
                ("/v1/consumers/a%20b", "{}"), ("/v1/consumers/a", #"{"token": "x"}"#),
                ("/v1/consumers/a", #"{"place": 1}"#), ("/v1/consumers/a", "[]"),
            ] {
                let answer = try await node.ask("PUT", path, body)
                #expect(answer.status == 400 && answer.code == "malformed", "\(path) \(body)")
            }
            #expect(try await node.ask("POST", "/v1/consumers/a", "{}").status == 405)
        }
    }

    @Test("Of a log whose beginning was purged each page goes on where the one before ended")
    func purgedBeginning() async throws {
        try await HTTPTestNode.run { node in
            let uri = try await node.insertPerson("Ada").uri
            let seen = try node.coordinator.currentToken.versionVector
            // Neither has seen the other one, and the first is purged.
            try node.applyForeignName("Eve", of: uri, seen: seen, node: 2)
            let purged = try node.coordinator.currentToken
            try node.applyForeignName("Eva", of: uri, seen: seen, node: 3)
            _ = try await node.insertPerson("Bob")
            let count = try await node.coordinator.purgeHistory(
                before: purged, stable: purged.versionVector)
            #expect(count == 2)
            let first = try await node.ask("GET", "/v1/history?limit=1")
            let token = try #require(first["token"]?.string)
            #expect(first["transactions"]?.array?.count == 1)
            let second = try await node.ask("GET", "/v1/history?after=\(token)")
            #expect(second.status == 200 && second["transactions"]?.array?.count == 1)
            let put = try await node.ask("PUT", "/v1/consumers/audit", #"{"token": "\#(token)"}"#)
            #expect(put.status == 200 && put["behind.transactions"]?.integer == 1)
        }
    }

    @Test("A consumer whose history was purged hears so, wherever it asks")
    func expired() async throws {
        try await HTTPTestNode.run { node in
            _ = try await node.insertPerson("Ada")
            let begin = try await node.ask("PUT", "/v1/consumers/audit")
            let token = try #require(begin["token"]?.string)
            for number in 0..<5 { _ = try await node.insertPerson("\(number)") }
            var limits = HistoryLimits()
            limits.maximumBytes = 1
            let stable = try node.coordinator.currentToken.versionVector
            let tending = try node.coordinator.tendHistory(limits, HistoryKnowledge(stable: stable))
            #expect(tending.expired == ["audit"])
            let history = try await node.ask("GET", "/v1/history?after=\(token)")
            #expect(history.status == 410)
            #expect(try await node.ask("GET", "/v1/changes?after=\(token)").status == 410)
            let put = try await node.ask("PUT", "/v1/consumers/audit", #"{"token": "\#(token)"}"#)
            #expect(put.status == 410 && put.code == "historyTokenExpired")
            let one = try await node.ask("GET", "/v1/consumers/audit")
            #expect(one["expired"] == .boolean(true))
        }
    }
}
