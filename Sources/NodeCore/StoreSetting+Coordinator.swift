package import Coordinator

extension StoreSetting {
    /// Changes how a store takes saves.
    package func set(in coordinator: PersistentStoreCoordinator) {
        switch self {
        case .saving(let isAllowed): coordinator.setSaving(allowed: isAllowed)
        case .clock(let isOff): coordinator.setClockOff(isOff)
        case .departed: coordinator.setDeparted()
        }
    }
}
