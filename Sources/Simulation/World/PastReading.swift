internal import Coordinator
internal import Merge

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
