internal import Coordinator
internal import Replication

/// Generations that clients hold pinned at a node.
extension SimulatedProcess {
    /// Pins the newest generation and reads it.
    func pin(_ number: Int) {
        guard case .success(let pin) = run({ try $0.pinCurrentGeneration() }),
            let reading = readWhole(pin)
        else { return }
        pins[number] = (pin, reading, machine.clock.monotonicMilliseconds)
        observe { .pinned(node: $0, pin: number, reading: reading) }
    }

    /// Reads a pinned generation again, and lets it go.
    func unpin(_ number: Int) {
        guard isAlive, let (pin, first, since) = pins[number] else { return }
        let result = run { coordinator in
            try coordinator.read(pin) { try Reading.whole($0, coordinator.model) }
        }
        guard isAlive else { return }
        pins[number] = nil
        switch result {
        case .success(let reading):
            if state.vector != first.token.versionVector { met(.pinReadAfterMerge) }
            observe { .pinRead(node: $0, pin: number, reading: reading) }
        case .failure(let error as CoordinatorError) where error.code == .queryGenerationExpired:
            met(.pinExpired)
            let settings = machine.settings
            // A log of the usual limit is never that long here.
            let isDue =
                machine.clock.monotonicMilliseconds - since > settings.pinLimitMilliseconds
                || settings.walLimit < MachineSettings().walLimit
            observe { .pinExpired(node: $0, pin: number, isDue: isDue) }
        case .failure: noteReadFailure(result)
        }
    }

    func tendPins() {
        run { $0.maintain() }
    }
}
