import Client
import Console
import Coordinator
import Node
import Testing

@testable import TributaryCLI

@Suite("Exit codes")
struct ExitCodeTests {
    @Test(
        "An answer's code decides, else its status",
        arguments: [
            (409, "mergeConflict", 3), (409, "sidesChanged", 3), (422, "validationFailed", 3),
            (409, "somethingNew", 3), (400, "malformed", 2), (400, "invalidPredicate", 2),
            (500, "outcomeUnknown", 4), (500, "storeDamaged", 5), (401, "", 7), (403, "", 7),
            (500, "modelMismatch", 8), (507, "diskFull", 9), (410, "queryGenerationExpired", 10),
            (404, "objectNotFound", 1), (500, "internal", 1), (503, "recovering", 1),
            (404, "memberUnknown", 3), (409, "memberDeparted", 3), (422, "tooFewNodes", 3),
            (422, "configurationInvalid", 2), (504, "acknowledgementTimeout", 13),
            (504, "generationTimeout", 1),
        ])
    func statuses(_ status: Int, _ code: String, _ expected: Int32) {
        let body: JSONValue = ["error": ["code": .string(code), "message": "No."]]
        let failure = CommandFailure(status: status, body: JSONWriter.bytes(of: body))
        #expect(failure.code.rawValue == expected)
        #expect(failure.message.hasPrefix("No."))
    }

    @Test("Of several failures each is reported once, and a single one is not reported twice")
    func failures() {
        func message(_ message: String, _ failures: [String]) -> String {
            let body: JSONValue = [
                "error": [
                    "code": "validationFailed", "message": .string(message),
                    "failures": .array(failures.map { ["message": .string($0)] }),
                ]
            ]
            return CommandFailure(status: 422, body: JSONWriter.bytes(of: body)).message
        }
        #expect(message("age: expected 7.", ["age: expected 7."]) == "age: expected 7.")
        #expect(
            message("2 values are not valid.", ["One.", "Two."])
                == "2 values are not valid. One. Two.")
    }

    @Test("An answer that is no error of the interface is reported by its status")
    func otherServer() {
        let failure = CommandFailure(status: 404, body: Array("<html>".utf8))
        #expect(failure.code == .failed)
        #expect(failure.message == "The node answered with status 404.")
    }

    @Test(
        "A node's and a store's errors have theirs",
        arguments: [
            (ClientError(.connectionRefused, "x"), 11), (ClientError(.timedOut, "x"), 11),
            (ClientError(.requestInvalid, "x"), 2), (ClientError(.notTrusted, "x"), 1),
            (NodeError(.configurationInvalid, "x"), 2), (NodeError(.nodeIDInUse, "x"), 12),
            (CoordinatorError(.storeInUse, "x"), 6), (CoordinatorError(.storeDamaged, "x"), 5),
            (CoordinatorError(.storeLayout, "x"), 8), (ModelError("a", "b"), 2),
        ] as [(any Error, Int32)])
    func errors(_ error: any Error, _ expected: Int32) {
        #expect(CommandFailure(describing: error).code.rawValue == expected)
    }

    @Test("Only a request that was sent may have been done")
    func lostAnswers() {
        #expect(CommandFailure(describing: ClientError(.connectionReset, "x")).mayHaveHappened)
        #expect(CommandFailure(describing: ClientError(.timedOut, "x")).mayHaveHappened)
        #expect(!CommandFailure(describing: ClientError(.connectionRefused, "x")).mayHaveHappened)
    }

    @Test("What a proxy answers that has given up waiting may have been done")
    func proxies() {
        for status in [502, 504] {
            let failure = CommandFailure(status: status, body: Array("<html>".utf8))
            #expect(failure.mayHaveHappened)
        }
        let body: JSONValue = ["error": ["code": "acknowledgementTimeout", "message": "No."]]
        #expect(!CommandFailure(status: 504, body: JSONWriter.bytes(of: body)).mayHaveHappened)
        #expect(!CommandFailure(status: 500, body: Array("<html>".utf8)).mayHaveHappened)
    }
}
