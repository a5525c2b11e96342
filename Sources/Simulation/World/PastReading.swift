internal import Coordinator
internal import Merge
internal import Replication

/// The latest whole readings of a process, at the points where the past is read again.
struct PastPoints {
    private static let most = 5
    private(set) var readings: [Reading] = []

    /// Keeps a reading, in place of the oldest.
    mutating func note(_ reading: Reading) {
        if readings.last?.token.versionVector == reading.token.versionVector { return }
        readings.append(reading)
        if readings.count > Self.most { readings.removeFirst() }
    }
}

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
        readPast(first)
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

    /// Reads the past at the points of the latest readings and of a pin, as far as history has all of it.
    func readPast(_ first: Reading) {
        let points = (pastPoints.readings + [first]).sorted {
            $0.token.versionVector.total < $1.token.versionVector.total
        }
        let result = run { coordinator -> [Reading] in
            let past = PastStore(of: coordinator)
            defer { past.close() }
            let model = coordinator.model
            return try points.map { point in
                try past.read(at: point.token.versionVector) { try Reading.whole($0, model) }
            }
        }
        switch result {
        case .success(let readings):
            met(.pastRead)
            world.statistics.pastReadings += UInt64(readings.count)
            for (then, reading) in zip(points, readings) {
                observe { .pastRead(node: $0, then: then, reading: reading) }
            }
        // Its history does not reach back, or a copy in its place has other saves.
        case .failure(let error as CoordinatorError)
        where [.historyTokenExpired, .generationTimeout].contains(error.code): break
        case .failure: noteReadFailure(result)
        }
    }
}
