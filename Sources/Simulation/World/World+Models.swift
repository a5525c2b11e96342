internal import Coordinator
internal import Merge

/// Nodes that come to have another model, one after the other.
extension World {
    /// The model that a machine's store is opened with.
    func model(of machine: Machine) -> ManagedObjectModel {
        machine.edition == 1 ? plan.succession?.next ?? plan.model : plan.model
    }

    /// Closes a machine's process; its store is opened with the next model from now on. Its clients
    /// begin anew, for what they remember is in the places of the model before.
    func takeUpNextModel(_ machine: Machine) {
        if machine.process != nil { end(machine, .closed) }
        machine.edition = 1
        machine.memory.forgetModel()
    }

    /// By which model an observation is to be judged: its node's. When all is settled there is one
    /// model left.
    func edition(of observation: Observation) -> Int {
        switch observation {
        case .healed: context.archive.edition
        case .settled(let final, _):
            final.keys.contains { machines[$0].edition == 0 } ? 0 : 1
        case .started(let node, _, _, _), .found(let node, _), .committed(let node, _),
            .acknowledged(let node, _, _), .performed(let node, _), .confirmed(let node, _, _),
            .refused(let node, _, _),
            .unknown(let node, _, _), .read(let node, _), .pinned(let node, _, _),
            .pinRead(let node, _, _), .pinExpired(let node, _, _), .contextSaved(let node, _),
            .ended(let node, _), .tookOver(let node, _), .durable(let node, _),
            .stable(let node, _, _),
            .collected(let node, _), .purged(let node, _), .alarm(let node, _),
            .gauges(let node, _), .tended(let node, _, _, _):
            machines[node].edition
        }
    }
}
