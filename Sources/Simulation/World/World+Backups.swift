internal import Coordinator
internal import Merge

/// Stores that are backed up, and put back.
extension World {
    /// Keeps what a machine's store is now.
    ///
    /// - Parameter isByCommand: whether its process is asked for a backup, as `tributary backup` does;
    ///   else its files are copied while they are in use.
    func backUp(_ machine: Machine, byCommand isByCommand: Bool) {
        guard isByCommand, let process = machine.process else {
            machine.image = machine.disk.image()
            machine.imageVector = machine.held
            machine.imageMembership = machine.membership
            machine.imageEditions = machine.hadEditions
            return
        }
        let path = machine.disk.path("backup.sqlite")
        guard let made = process.backUp(to: path) else { return }
        let files = machine.disk.image().files
        guard let backup = files.first(where: { machine.disk.path($0.name) == path }),
            let store = files.first(where: { machine.disk.path($0.name) == machine.storePath })
        else { return violate(0, "node \(process.name) made a backup that is not there") }
        machine.image = DiskImage(files: [.init(name: store.name, bytes: backup.bytes)])
        machine.imageVector = made.versionVector
        machine.imageMembership = made.membership
        machine.imageEditions = machine.hadEditions
        // It is taken away to another machine; a disk with a fault may refuse that.
        try? machine.disk.remove(path)
        met(.backupMade)
    }

    /// Puts the last image of a store in its place and leaves the file beside it.
    ///
    /// Not where the image holds a transaction that every disk has lost since: the cluster has
    /// gone on without it (ARCHITECTURE, failure model).
    func restore(_ node: Int, as kind: PlannedEvent.Kind, for time: UInt64) {
        guard let machine = machine(node), let image = machine.image else { return }
        let held = machines.reduce(into: VersionVector()) { $0.join($1.held) }
        guard held.covers(machine.imageVector) else {
            return trace { "node \(node + 1) is not restored: only its image knows all it holds" }
        }
        guard !hasForgottenDepartures(machine), !hasAloneChange(machine),
            !wouldHideMembers(
                machine, telling: machine.imageMembership, naming: machine.configured)
        else {
            return trace { "node \(node + 1) is not restored: it would forget a member's change" }
        }
        take(down: node, .restored, as: kind, for: time) { machine in
            let beside = machine.disk.image().onlySideFiles
            machine.disk.restore(DiskImage(files: image.withoutSideFiles.files + beside.files))
            machine.heldAtEnd = machine.imageVector
            machine.membershipAtEnd = machine.imageMembership
            machine.hadEditions = machine.imageEditions
        }
    }
}
