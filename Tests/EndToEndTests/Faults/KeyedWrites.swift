import Client
import Coordinator
import Node

/// Saves of objects with few unique keys, and of what belongs to one of them alone, each of what a
/// node shows at that moment.
enum KeyedWrites {
    private static let keys = 6
    private static let cards = 3

    /// Draws one.
    ///
    /// - Parameters:
    ///   - saveID: what it writes beside keys.
    ///   - node: where it will be saved.
    /// - Returns: nil where the node did not answer, or shows nothing to change.
    static func operation(
        _ saveID: String, on node: NodeHandle, _ client: NodeClient,
        _ generator: inout SeededGenerator
    ) async -> JSONValue? {
        let kind = Int.random(in: 0..<20, using: &generator)
        let key = JSONValue.string("k\(Int.random(in: 0..<keys, using: &generator))")
        let text = JSONValue.string(saveID)
        let entity = ["Accounts", "Reserves"][Int.random(in: 0...1, using: &generator)]
        if kind < 6 {
            let isHeir = entity == "Accounts" && Bool.random(using: &generator)
            return .insert(isHeir ? "VipAccounts" : entity, id: "@new", ["name": key, "a": text])
        }
        if kind < 10 {
            guard
                let account = await shown("Accounts", node, client).randomElement(using: &generator)
            else { return nil }
            let values: JSONObject = ["a": text, "account": .string(account)]
            let all = await shown("Cards", node, client)
            // So few that several claim one object while they are apart.
            guard all.count > cards, let card = all.randomElement(using: &generator) else {
                return .insert("Cards", id: "@new", values)
            }
            return .update(card, values)
        }
        guard let object = await shown(entity, node, client).randomElement(using: &generator) else {
            return nil
        }
        switch kind {
        case 10..<15: return .update(object, ["a": text])
        case 15..<18: return .update(object, ["name": key, "a": text])
        default: return .delete(object)
        }
    }

    /// The objects that the node shows of an entity; none where it does not answer.
    private static func shown(
        _ entity: String, _ node: NodeHandle, _ client: NodeClient
    ) async -> [String] {
        let answer = try? await node.ask(
            "POST", "/v1/fetch", Reading.question(entity), using: client)
        return (answer?.body["objects"]?.array ?? []).compactMap { $0.object?.text("id") }
    }
}
