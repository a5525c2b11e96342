import Coordinator
import Merge
import Replication
import Testing

@testable import NodeCore

/// Models that peers tell of.
@Suite struct ModelTextTests {
    private static let newest = NamedMergePolicy.register("newest", version: 1) { $0.count - 1 }

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Offer", mergePolicy: .error,
                attributes: [.init("price", .integer64, mergePolicy: newest)])
        ])
    }

    @Test("A model with a policy of this program's is understood")
    func understood() throws {
        let model = try Self.model()
        #expect(ModelText(model).model?.modelHash == model.modelHash)
        #expect(ModelText(model).unregisteredPolicy == nil)
    }

    @Test(
        "One with a policy that this program lacks is no model, so that its transactions wait, and the reason is told"
    )
    func waits() throws {
        let model = try Self.model()
        let text = JSONWriter.text(of: model.jsonValue()).replacing("newest@1", with: "newest@2")
        let unknown = ModelText(hash: model.modelHash, text: Array(text.utf8))
        #expect(unknown.model == nil)
        #expect(unknown.unregisteredPolicy == "newest@2")
    }
}
