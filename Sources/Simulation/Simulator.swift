/// Runs one seed, or part of its plan.
public enum Simulator {
    /// Lives through the run that belongs to a seed: work and faults, healing, converging, checks.
    ///
    /// One thread, no waiting; the same seed and options give the same report anywhere. It uses
    /// SQLite's default file system door, so that it may run in a process that also uses real
    /// files.
    ///
    /// - Parameters:
    ///   - seed: any number.
    ///   - options: what the user decides.
    public static func run(seed: UInt64, options: SimulationOptions = .init()) -> RunReport {
        var plan = RunPlan(seed: seed, options: options)
        let total = plan.events.count
        if let events = options.events { plan = plan.keeping(events) }
        var report = World(plan: plan, options: options).run()
        report.eventCount = total
        return report
    }
}
