// GET /v1/objects/{entity}/{pDECIMAL}.

internal import Coordinator
internal import Merge

/// Single objects.
struct ObjectsResource: Sendable {
    let services: HTTPServices

    func get(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let name = request.segments[2]
        guard let entity = services.model.entity(named: name) else {
            throw HTTPError.malformed(services.model.noEntity(name))
        }
        guard let row = RowID(request.segments[3]) else {
            throw HTTPError.malformed("\"\(request.segments[3])\" is no object; expected p1234.")
        }
        let selection = ObjectSelection(includesVersions: try request.boolean("versions") ?? false)
        let source = try await services.source(
            at: try request.point("at"), generation: try request.token("generation"),
            after: try request.token("after"), timeout: try request.timeout())
        let renderer = services.renderer
        return .json(
            try await services.read(source) { reader in
                guard let snapshot = try reader.row(entity, row) else {
                    throw CoordinatorError(
                        .objectNotFound, "\(entity.name)/\(row) does not exist.")
                }
                var encoder = ObjectEncoder(reader, renderer: renderer, selection: selection)
                var output = [UInt8(ascii: "{")]
                try encoder.appendMembers(snapshot, to: &output)
                renderer.appendState(try source.token(reader), to: &output)
                output.append(UInt8(ascii: "}"))
                return output
            })
    }
}
