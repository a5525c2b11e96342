import Coordinator
import Merge
import Testing

@testable import TributaryCLI

@Suite("What `tributary member` tells")
struct MemberCommandTests {
    @Test("A newcomer that does not name all members gets a warning, but not for departed ones")
    func unnamed() throws {
        let states = [1: "member", 2: "member", 3: "retired", 4: "member", 5: "configured"]
        let answer: JSONObject = [
            "members": .array(
                states.sorted { $0.key < $1.key }.map {
                    ["node": .integer(Int64($0.key)), "state": .string($0.value)]
                })
        ]
        func told(_ named: Int...) throws -> [String] {
            MemberCommand.unnamed(answer, named: try named.map { try #require(NodeID($0)) })
        }
        #expect(try told(4, 1, 2, 5).isEmpty)
        let lines = try told(4, 1)
        #expect(lines.count == 1 && lines[0].contains("does not name 2, 5 among its peers"))
    }
}
