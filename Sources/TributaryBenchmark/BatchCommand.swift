import ArgumentParser
import Coordinator
import Foundation
import Merge
import Synchronization

/// Batch requests beside a context and bare SQLite.
struct BatchCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "batch",
        abstract:
            "Batch requests beside a context and bare SQLite: time, memory, bytes, others' waits.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects.")
    var objects = 1_000_000

    @Flag(help: "Leave the context out, which takes gigabytes for a million objects.")
    var withoutContext = false

    @Option(help: .private)
    var work: Work?

    @Option(help: .private)
    var file: String?

    /// What a process of its own does with a store that is there, so that its memory is known.
    enum Work: String, CaseIterable, ExpressibleByArgument {
        case contextDelete
        case batchDelete
        case bareDelete
        case batchUpdate
        case bareUpdate
        case batchInsert
        case coordinatorInsert
        case bareInsert

        fileprivate var isInsert: Bool {
            [.batchInsert, .coordinatorInsert, .bareInsert].contains(self)
        }
        fileprivate var isBare: Bool { [.bareDelete, .bareUpdate, .bareInsert].contains(self) }

        fileprivate var name: String {
            switch self {
            case .contextDelete: "delete through a context"
            case .batchDelete: "batch delete"
            case .bareDelete: "bare DELETE with a log"
            case .batchUpdate: "batch update, one value"
            case .bareUpdate: "bare UPDATE with a log"
            case .batchInsert: "batch insert"
            case .coordinatorInsert: "coordinator.save"
            case .bareInsert: "bare INSERT"
            }
        }
    }

    /// What one process has found.
    private struct Outcome: Codable {
        var seconds: Double
        var peakBytes: Double
        var logBytes: Double
        var longest: Double
        var late: Double
    }

    static let chunk = 10_000

    func tables() async throws -> [MarkdownTable] {
        if let work, let file {
            let outcome = try await outcome(of: work, file)
            print(String(decoding: try JSONEncoder().encode(outcome), as: UTF8.self))
            return []
        }
        return [try await Workspace.with(common.directory, "batch") { try measure($0) }]
    }

    // MARK: One process each

    private func measure(_ workspace: Workspace) throws -> MarkdownTable {
        let store = try SampleData.openStore(at: workspace.file("store.sqlite"))
        let count = objects
        try store.coordinator.execute(Self.inserts(count))
        store.coordinator.close()
        try BareLoop(path: workspace.file("bare.sqlite")).fill(count)
        var outcomes: [Work: [Outcome]] = [:]
        for _ in 0..<common.rounds {
            for work in Work.allCases where work != .contextDelete || !withoutContext {
                outcomes[work, default: []].append(try run(work, workspace))
            }
        }
        return table(outcomes)
    }

    /// Does some work in a process of its own, on a copy of a store.
    private func run(_ work: Work, _ workspace: Workspace) throws -> Outcome {
        let copy = workspace.file("copy.sqlite")
        workspace.removeStore("copy.sqlite")
        if !work.isInsert {
            try FileManager.default.copyItem(
                atPath: workspace.file(work.isBare ? "bare.sqlite" : "store.sqlite"), toPath: copy)
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = [
            "batch", "--work", work.rawValue, "--file", copy, "--objects", "\(objects)",
        ]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkError("\(work.name) ended with \(process.terminationStatus).")
        }
        return try JSONDecoder().decode(Outcome.self, from: data)
    }

    private func table(_ outcomes: [Work: [Outcome]]) -> MarkdownTable {
        let count = Double(objects)
        var table = MarkdownTable(
            "\(Figures.text(count, 0)) objects, a process each, durable in transactions of "
                + Figures.text(Double(Self.chunk), 0),
            columns: [
                "", "time", "µs an object", "memory", "bytes of log an object",
                "others' saves, p99", "the longest",
            ])
        func median(_ work: Work, _ value: (Outcome) -> Double) -> Double {
            Figures.median((outcomes[work] ?? []).map(value))
        }
        for work in Work.allCases where outcomes[work] != nil {
            let seconds = median(work) { $0.seconds }
            let hasOthers = [.batchDelete, .batchUpdate, .batchInsert].contains(work)
            table.add(
                work.name, Figures.text(seconds) + " s",
                Figures.text(seconds / count * 1_000_000),
                Figures.text(median(work) { $0.peakBytes } / 1_048_576, 0) + " MiB",
                work.isBare ? "" : Figures.text(median(work) { $0.logBytes } / count),
                hasOthers ? Figures.milliseconds(median(work) { $0.late }) : "",
                hasOthers ? Figures.milliseconds(median(work) { $0.longest }) : "")
        }
        func ratio(_ work: Work, _ other: Work, _ value: (Outcome) -> Double) -> Double {
            median(work, value) / median(other, value)
        }
        if outcomes[.contextDelete] != nil {
            table.goals += [
                Goal(
                    "a context's memory for a delete beside a batch's", .atLeast(14),
                    ratio(.contextDelete, .batchDelete) { $0.peakBytes }, unit: " times"),
                Goal(
                    "a context's time for a delete beside a batch's", .atLeast(10),
                    ratio(.contextDelete, .batchDelete) { $0.seconds }, unit: " times"),
            ]
        }
        table.goals += [
            Goal(
                "a batch delete beside a bare one with a log", .atMost(3),
                ratio(.batchDelete, .bareDelete) { $0.seconds }, unit: " times"),
            Goal(
                "a batch update beside a bare one with a log", .atMost(3),
                ratio(.batchUpdate, .bareUpdate) { $0.seconds }, unit: " times"),
            Goal(
                "a batch insert beside coordinator.save", .atMost(1),
                ratio(.batchInsert, .coordinatorInsert) { $0.seconds }, unit: " times"),
            Goal(
                "bytes of log for an updated object", .atMost(3),
                median(.batchUpdate) { $0.logBytes } / count, unit: " bytes"),
        ]
        for work in [Work.batchDelete, .batchUpdate, .batchInsert] {
            table.goals.append(
                Goal(
                    "others' saves beside a \(work.name), p99", .atMost(100),
                    median(work) { $0.late } * 1000, unit: " ms"))
        }
        return table
    }

    // MARK: The work

    /// Row by row: a lazy sequence is not sendable, and would be made an array.
    private static func inserts(_ count: Int) -> BatchInsertRequest {
        let next = Atomic(0)
        return BatchInsertRequest(SampleData.entityName) { row in
            let number = next.add(1, ordering: .relaxed).oldValue
            if number == count { return true }
            let item = SampleData.Item(number)
            row["count"] = .integer(item.count)
            row["name"] = .string(item.name)
            row["note"] = .string(item.note)
            row["weight"] = .double(item.weight)
            return false
        }
    }

    private static func fill(_ coordinator: PersistentStoreCoordinator, _ count: Int) throws {
        try coordinator.execute(inserts(count))
    }

    private func outcome(of work: Work, _ file: String) async throws -> Outcome {
        var outcome = Outcome(seconds: 0, peakBytes: 0, logBytes: 0, longest: 0, late: 0)
        if work.isBare {
            let bare = try BareLoop(path: file)
            outcome.peakBytes = try Memory.peak {
                outcome.seconds = try Clocks.measure { try doBare(work, bare) }.wall
            }
            return outcome
        }
        let store = try SampleData.openStore(at: file)
        let coordinator = store.coordinator
        let before = try Self.logBytes(coordinator)
        outcome.peakBytes = try Memory.peak {
            outcome.seconds = try Clocks.measure { try doStored(work, store) }.wall
        }
        outcome.logBytes = try Self.logBytes(coordinator) - before
        coordinator.close()
        guard [.batchDelete, .batchUpdate, .batchInsert].contains(work) else { return outcome }
        // Once more for those who save beside it, on what is left.
        let other = try SampleData.openStore(at: file + "-beside")
        try Self.fill(other.coordinator, min(objects, 200_000))
        let samples = BulkSamples()
        let task = Task.detached {
            var number = 50_000_000
            while !Task.isCancelled {
                let begin = Clocks.seconds()
                _ = try await other.coordinator.save(
                    SampleData.insert(CollectionOfOne(SampleData.Item(number)), other.entity))
                samples.add(Clocks.seconds() - begin)
                number += 1
                try? await Task.sleep(for: .milliseconds(2))
            }
        }
        try await Task.sleep(for: .milliseconds(200))
        _ = samples.take()
        try doStored(work, other)
        task.cancel()
        _ = try await task.value
        let waits = samples.take()
        outcome.longest = waits.max() ?? 0
        outcome.late = Figures.percentile(0.99, of: waits)
        other.coordinator.close()
        return outcome
    }

    private func doBare(_ work: Work, _ bare: BareLoop) throws {
        switch work {
        case .bareDelete: try bare.change("DELETE FROM Item", objects)
        case .bareUpdate: try bare.change("UPDATE Item SET note = 'another note'", objects)
        default: try bare.fill(objects)
        }
    }

    private func doStored(_ work: Work, _ store: SampleData.Store) throws {
        let coordinator = store.coordinator
        let all = try Predicate(format: "count >= 0")
        switch work {
        case .contextDelete:
            let context = ManagedObjectContext(coordinator)
            try context.performAndWait {
                for object in try context.fetch(
                    FetchRequest(SampleData.entityName, predicate: all))
                {
                    context.delete(object)
                }
                try context.save(SaveOptions(isBulk: true))
            }
        case .batchDelete:
            try coordinator.execute(
                BatchDeleteRequest(
                    fetchRequest: FetchRequest(SampleData.entityName, predicate: all)))
        case .batchUpdate:
            try coordinator.execute(
                BatchUpdateRequest(
                    SampleData.entityName, predicate: all,
                    propertiesToUpdate: ["note": .string("another note")]))
        case .batchInsert: try coordinator.execute(Self.inserts(objects))
        case .coordinatorInsert:
            for start in stride(from: 0, to: objects, by: Self.chunk) {
                let items = (start..<min(start + Self.chunk, objects)).map(SampleData.Item.init)
                _ = try coordinator.save(SampleData.insert(items, store.entity)) as SaveResult
            }
        case .bareDelete, .bareUpdate, .bareInsert: break
        }
    }

    private static func logBytes(_ coordinator: PersistentStoreCoordinator) throws -> Double {
        Double(try coordinator.historyStatus().bytes)
    }
}
