// POST /v1/saves/{saveID or transaction}/undo.

internal import Coordinator
internal import Merge

/// Undoes saves.
struct UndoResource: Sendable {
    let services: HTTPServices

    /// How many objects an answer names, of each list.
    private static let named = 10_000
    /// How many objects one undo may write.
    private static let mostOfBulk = 1_000_000

    func post(_ name: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let json =
            request.body.isEmpty
            ? JSONValue.object(JSONObject())
            : try request.json(maximumBytes: services.maximumBodyBytes)
        let fields = try JSONFields(
            json, allowed: ["dryRun", "force", "bulk", "author", "context", "note"])
        let force = try fields.boolean("force")
        let isBulk = try fields.boolean("bulk")
        let isDryRun = try fields.boolean("dryRun")
        let who = SaveDescription(
            author: try fields.string("author"), contextName: try fields.string("context"),
            note: try fields.string("note"))
        try who.check()
        let plan = try await services.read { reader in
            try reader.undoing(
                try reader.saves(named: name), force: force,
                limit: isBulk ? Self.mostOfBulk : SaveRequest.Bounds.operations)
        }
        var save: SaveResult?
        if !isDryRun, !plan.restored.isEmpty {
            save = try await services.backend.saving {
                try await $0.undo(plan, by: who, isBulk: isBulk)
            }
        }
        return try await answer(plan, save)
    }

    private func answer(_ plan: UndoPlan, _ save: SaveResult?) async throws -> HTTPAnswer {
        let renderer = services.renderer
        let resource = SaveResource(services: services)
        return .json(
            try await services.read { reader in
                let entities = ReferencedEntities(reader, renderer.model)
                let heading = ExplainRenderer(renderer: renderer, digits: 0)
                var json: JSONObject = [
                    "count": .integer(Int64(plan.restored.count)),
                    "objects": .array(
                        try plan.restored.prefix(Self.named).map { restored in
                            [
                                "object": .string(renderer.uri(restored.object)),
                                "kind": .string(restored.kind.rawValue),
                                "properties": try renderer.snapshot(
                                    restored.values, entity: restored.object.entityName,
                                    entities.name),
                                "relationships": .array(
                                    restored.relationships.map { .string($0.name) }),
                            ]
                        }),
                    "newer": .array(
                        plan.newer.prefix(Self.named).map { newer in
                            [
                                "object": .string(renderer.uri(newer.object)),
                                "properties": .array(newer.properties.map { .string($0) }),
                                "by": heading.json(newer.write),
                            ]
                        }),
                    "lost": .array(
                        plan.lost.prefix(Self.named).map { lost in
                            [
                                "object": .string(renderer.uri(lost.object)),
                                "property": ValueRenderer.text(lost.property),
                                "reason": .string(lost.reason),
                            ]
                        }),
                ]
                guard let save else {
                    json["transaction"] = .null
                    return JSONWriter.bytes(of: .object(json))
                }
                for member in resource.members(of: save, ids: JSONObject()).members {
                    json[member.key] = member.value
                }
                return JSONWriter.bytes(of: .object(json))
            })
    }
}
