import Merge
import Testing

@testable import Coordinator

/// The registers that fetches tell of, where objects are united.
@Suite("Versions of a united object")
struct ShownRegisterTests {
    @Test("The value shown, its dot and its siblings are of one register")
    func oneRegister() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("email", .string), .init("name", .string)],
                uniquenessConstraints: [["email"]])
        ])
        let (here, there) = (try EngineNode(model, node: 1), try EngineNode(model, node: 2))
        let first = try here.insert("Person", ["email": .string("a"), "name": .string("Ada")])
        let second = try there.insert("Person", ["email": .string("a"), "name": .string("Eve")])
        try exchange(here, there)
        let entity = try #require(model.entity(named: "Person"))
        let name = try #require(entity.position(of: "name"))
        let register = try #require(
            try here.coordinator.read { try $0.shownRegisters(entity, first.row)?[name] })
        #expect(try here.value(first, "name") == .string("Eve"))
        #expect(register.visible.value == .string("Eve"))
        #expect(register.siblings == [register.visible])
        let version = try here.version(first)
        #expect(version.eclipsed.map(\.row) == [second.row])
        #expect("\(version)".allSatisfy { $0 != "~" })
        #expect(RowVersion("\(version)") == version)
    }
}
