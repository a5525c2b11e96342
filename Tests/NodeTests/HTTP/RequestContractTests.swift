import Coordinator
import Foundation
import Synchronization
import Testing

@testable import Node

/// What holds of requests to every route.
@Suite("Requests to every route")
struct RequestContractTests {
    @Test("A parameter that the route does not take is 400, and named")
    func refusesParameters() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson("Ada")
            let object = uri.replacing("x-tributary://demo/", with: "/v1/objects/")
            for (method, path) in [
                ("GET", "/v1/status"), ("GET", "/v1/model"), ("POST", "/v1/save"),
                ("GET", "/v1/saves/x"), ("POST", "/v1/fetch"), ("GET", object),
                ("POST", "/v1/generations"), ("DELETE", "/v1/generations/x"),
                ("GET", "/v1/history"), ("DELETE", "/v1/history"), ("GET", "/v1/changes"),
                ("GET", "/v1/consumers"), ("GET", "/v1/consumers/x"), ("PUT", "/v1/consumers/x"),
                ("DELETE", "/v1/consumers/x"), ("GET", "/v1/orphans"), ("GET", "/v1/orphans/x"),
                ("DELETE", "/v1/orphans/x"), ("GET", "/v1/discards"), ("GET", "/v1/conflicts"),
                ("GET", object + "/blame"), ("GET", object + "/log"), ("GET", "/v1/diff"),
                ("POST", "/v1/conflicts/resolution"), ("POST", "/v1/saves/x/undo"),
                ("POST", "/v1/policies/try"),
                ("GET", "/v1/conflicts/x"), ("POST", "/v1/conflicts/x/resolution"),
                ("POST", "/v1/conflicts/x/undo"), ("POST", "/v1/verify"), ("POST", "/v1/backup"),
                ("POST", "/v1/reload"), ("GET", "/v1/members"), ("POST", "/v1/members"),
                ("POST", "/v1/members/2/departure"),
            ] {
                let body = ["POST", "PUT"].contains(method) ? "{}" : nil
                let answer = try await node.ask(method, path + "?colour=red", body)
                #expect(
                    answer.status == 400 && answer.code == "malformed", "\(path): \(answer.text)")
                #expect(answer.message.contains("\"colour\""), "\(path): \(answer.message)")
            }
            // Those who watch may add parameters of their own.
            for path in ["/healthz", "/readyz", "/metrics"] {
                #expect(try await node.ask("GET", path + "?colour=red").status == 200, "\(path)")
            }
        }
    }

    @Test("-0 is a double of its own, and 0 of integers and decimals")
    func negativeZero() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson(
                "Ada", #""ratio": -0, "age": -0, "price": -0"#)
            let path = uri.replacing("x-tributary://demo/", with: "/v1/objects/")
            let answer = try await node.ask("GET", path)
            guard case .double(let ratio)? = answer["values.ratio"] else {
                throw HTTPTestNode.Unexpected(answer.text)
            }
            #expect(ratio == 0 && ratio.sign == .minus, "\(answer.text)")
            #expect(answer["values.age"] == .integer(0), "\(answer.text)")
            #expect(answer["values.price"] == .string("0"), "\(answer.text)")
        }
    }

    @Test("A number out of range is reported as one, because it is JSON all the same")
    func numbersOutOfRange() async throws {
        try await HTTPTestNode.run { node in
            let answer = try await node.save(
                operations: #"{"insert": "Person", "values": {"ratio": 1e400}}"#)
            #expect(answer.status == 400 && answer.code == "malformed")
            #expect(answer.message.contains("out of range"), "\(answer.message)")
            #expect(!answer.message.contains("not JSON"), "\(answer.message)")
            #expect(answer["error.column"] != nil)
            let broken = try await node.save("{")
            #expect(broken.message.contains("not JSON"), "\(broken.message)")
        }
    }

    @Test("A wrong type hides no bound that another value breaks")
    func collectsBounds() async throws {
        try await HTTPTestNode.run { node in
            let (ada, _) = try await node.insertPerson("Ada")
            let long = String(repeating: "x", count: 21)
            let answer = try await node.save(
                """
                {"operations": [
                  {"insert": "Person", "id": "@a", "values": {"name": "\(long)", "age": "x"}},
                  {"insert": "Person", "values": {"name": "Bob", "manager": "@nobody"}},
                  {"update": "\(ada)", "values": {"name": "\(long)"}}]}
                """)
            #expect(answer.status == 422 && answer.code == "validationFailed")
            let failures = (answer["error.failures"]?.array ?? []).compactMap(\.object)
            let places = failures.map { [$0["object"]?.string, $0["property"]?.string] }
            #expect(
                places == [
                    ["@a", "age"], ["operations[1]", "manager"], ["@a", "name"], [ada, "name"],
                ])
            let codes = failures.compactMap { $0["code"]?.integer }
            #expect(codes == [1550, 1560, 1660, 1660], "\(answer.text)")
        }
    }

    @Test("A backup into a folder that is not there is the request's fault, and names the path")
    func backupWithoutFolder() async throws {
        try await HTTPTestNode.run { node in
            let path = node.directory.path + "/none/backup"
            let answer = try await node.ask("POST", "/v1/backup", #"{"path": "\#(path)"}"#)
            #expect(answer.status == 400 && answer.code == "malformed", "\(answer.text)")
            #expect(answer.message.contains(path), "\(answer.message)")
            #expect(node.backend.failures.withLock { $0.isEmpty })
        }
    }

    @Test("What reads the whole store does not keep a server from stopping")
    func stopsWhileReading() async throws {
        var options = HTTPServer.Options()
        options.stopGrace = .milliseconds(50)
        let release = DispatchSemaphore(value: 0)
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        try await HTTPTestNode.run(options: options) { node in
            let services = node.server.services
            let reading = Task {
                try await services.blocking {
                    hasBegun.finish()
                    release.wait()
                }
            }
            for await _ in begun {}
            // It would wait for ever if it waited for that.
            await node.server.stop()
            release.signal()
            try await reading.value
        }
    }
}
