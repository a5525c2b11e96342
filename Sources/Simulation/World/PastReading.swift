internal import Coordinator

extension SimulatedProcess {
    /// Reads the past that a pin has shown, as far as history has all of it.
    func readPast(of number: Int, _ first: Reading) {
        let vector = first.token.versionVector
        let result = run { coordinator in
            let past = PastStore(of: coordinator)
            defer { past.close() }
            let model = coordinator.model
            return try past.read(at: vector) { try Reading.whole($0, model) }
        }
        switch result {
        case .success(let reading):
            met(.pastRead)
            world.statistics.pastReadings += 1
            observe { .pastRead(node: $0, pin: number, reading: reading) }
        case .failure(let error as CoordinatorError) where error.code == .historyTokenExpired: break
        case .failure: noteReadFailure(result)
        }
    }
}
