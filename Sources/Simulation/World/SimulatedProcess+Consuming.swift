internal import Coordinator
internal import Merge

/// A consumer of the machine's history, for whom it is kept: it must be able to read on, from where it
/// is, over all that happens, unless the store tells that it could not wait.
extension SimulatedProcess {
    /// The outcome of a consumer's reading.
    private enum Consumption {
        /// The store does not know it: its disk was lost, or put back; or the store has it further
        /// on, because it was registered again and did not hear of that.
        case unknown
        /// The store has said that it kept nothing for it any more.
        case expired
        /// The next transactions are gone, and nobody has said so.
        case missing
        /// The vector that it has read by now, and the fault in that.
        case read(VersionVector, complaint: String?)
    }

    private var consumer: String { "reader-\(machine.number)" }

    /// Lets the consumer read on.
    func consume() {
        guard isAlive, machine.settings.hasConsumer, generator.chance(in: 2) else { return }
        let seen = machine.consumed
        let found = run { coordinator in
            try coordinator.read { try Self.consume($0, self.consumer, after: seen) }
        }
        guard isAlive, case .success(let consumption) = found else { return }
        switch consumption {
        case .unknown: register(after: nil)
        case .expired:
            met(.consumerExpired)
            register(after: seen)
        case .missing:
            world.violate(
                8,
                "\(Telling.node(machine.number)) purged history that its consumer has not read: "
                    + "expected it kept, or the consumer told that it is not")
            register(after: nil)
        case .read(let vector, let complaint):
            if let complaint {
                world.violate(8, "\(Telling.node(machine.number)) told its consumer \(complaint)")
            }
            machine.consumed = vector
            guard generator.chance(in: 2) else { return }
            _ = setConsumer(to: vector)
        }
    }

    /// Registers the consumer at what it has read, or at the present where nothing is known of that
    /// or it is not kept.
    private func register(after seen: VersionVector?) {
        if let seen, setConsumer(to: seen) { return }
        guard isAlive, setConsumer(to: nil) else { return }
        let place = run { coordinator in
            try coordinator.read { try $0.consumers() }.first { $0.name == self.consumer }
        }
        if case .success(let place?) = place { machine.consumed = place.token.versionVector }
    }

    /// - Returns: whether it was heard that this is done.
    private func setConsumer(to vector: VersionVector?) -> Bool {
        let token = vector.map {
            QueryGenerationToken(store: 0, generation: 0, position: 0, versionVector: $0)
        }
        guard case .success = run({ try $0.setConsumer(self.consumer, to: token) }), isAlive else {
            return false
        }
        // It may have waited for the disk.
        observe { .durable(node: $0, vector: coordinator.durableVector) }
        return true
    }

    private static func consume(
        _ reader: StoreReader, _ name: String, after seen: VersionVector?
    ) throws -> Consumption {
        guard let place = try reader.consumers().first(where: { $0.name == name }), var seen else {
            return .unknown
        }
        if place.isExpired { return .expired }
        guard seen.covers(place.token.versionVector) else { return .unknown }
        guard var position = try reader.position(seen: seen) else { return .missing }
        while true {
            let page = try reader.history(afterPosition: position, limit: 100)
            guard let last = page.last else { break }
            if let first = page.first, first.position > position + 1 { return .missing }
            position = last.position
            for logged in page where !seen.contains(logged.encoded.dot) {
                let transaction = logged.encoded.transaction
                let dot = transaction.dot
                guard seen.covers(transaction.seen), seen[dot.actor] + 1 == dot.sequence else {
                    return .read(
                        try reader.token.versionVector,
                        complaint: "of \(dot) before what that had seen")
                }
                seen.advance(to: dot)
            }
        }
        let own = try reader.token.versionVector
        guard !seen.covers(own) else { return .read(seen, complaint: nil) }
        return .read(
            seen.joined(own), complaint: "of all there is but \(Telling.surplus(own, over: seen))")
    }
}
