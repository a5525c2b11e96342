import Foundation
import Glibc
import Synchronization
import Testing

/// Something that a fault needs of the machine and that not every machine has.
enum MachineAbility: String, CaseIterable, Sendable {
    /// strace can kill a process at a system call of its own.
    case tracing = "strace"
    /// libfaketime can give a process a clock of its own.
    case clocks = "libfaketime"
    /// A file system of a few megabytes can be mounted.
    case mounting = "tmpfs"
}

/// Which abilities the machine has; each is tried out once, and those missing are reported at the
/// end.
enum MachineAbilities {
    /// Why an ability is missing; nil where it is there.
    private static let missing: [MachineAbility: String] = {
        var missing: [MachineAbility: String] = [:]
        for ability in MachineAbility.allCases {
            let reason =
                switch ability {
                case .tracing: whyNotTraced()
                case .clocks: whyNoClock()
                case .mounting: whyNotMounted()
                }
            if let reason { missing[ability] = reason }
        }
        return missing
    }()

    private static let skipped = Mutex<[MachineAbility: Int]>([:])

    static func has(_ ability: MachineAbility) -> Bool { missing[ability] == nil }

    /// A test runs only where the machine has an ability; where it has not, the reason is printed
    /// and the tests that were skipped are counted.
    ///
    /// - Parameter count: how many cases are skipped with the test.
    static func needed(_ ability: MachineAbility, cases count: Int = 1) -> some TestTrait {
        let reason = missing[ability]
        if reason != nil {
            let isFirst = skipped.withLock { skipped in
                defer { skipped[ability, default: 0] += count }
                return skipped.isEmpty
            }
            if isFirst { atexit { MachineAbilities.printSummary() } }
        }
        return .enabled(
            if: reason == nil, Comment(rawValue: "\(ability.rawValue): \(reason ?? "")"))
    }

    private static func printSummary() {
        let parts = skipped.withLock { skipped in
            MachineAbility.allCases.compactMap { ability in
                skipped[ability].map {
                    "\(ability.rawValue) (\(missing[ability] ?? ""), cases: \($0))"
                }
            }
        }
        report("skipped: \(parts.joined(separator: ", "))")
    }

    /// Prints a line of the run's own, apart from what the tests tell.
    static func report(_ line: String) {
        FileHandle.standardError.write(Data("\(line)\n".utf8))
    }

    // MARK: - Trying out

    private static func whyNotTraced() -> String? {
        guard let strace = program("strace") else { return "not installed" }
        let result = run(
            [
                strace, "-D", "-f", "-o", "/dev/null", "-e", "trace=write", "-e",
                "inject=write:signal=KILL:when=1", "/bin/echo", "alive",
            ])
        return result.signal == SIGKILL ? nil : "not permitted"
    }

    private static func whyNoClock() -> String? {
        guard let library = fakeTimeLibrary else { return "not installed" }
        let result = run(
            ["/bin/date", "+%s"], environment: fakeTime(library, offsetSeconds: -86_400))
        guard let told = Int(result.output.trimmingCharacters(in: .whitespacesAndNewlines)),
            abs(told + 86_400 - Int(Date().timeIntervalSince1970)) < 600
        else { return "it changes no clock here" }
        return nil
    }

    private static func whyNotMounted() -> String? {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-mount-\(UUID().uuidString)")
        do {
            let volume = try SmallVolume(at: folder, megabytes: 1)
            volume.unmount()
            return nil
        } catch {
            return "mounting is not permitted"
        }
    }

    /// The program of a name in the usual folders.
    static func program(_ name: String) -> String? {
        ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
            .map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// The library that gives a process a clock of its own, where it is installed.
    static let fakeTimeLibrary: String? = {
        let libraries = "/usr/lib"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: libraries)) ?? []
        return (names.sorted().map { "\(libraries)/\($0)" } + [libraries, "/usr/local/lib"])
            .map { "\($0)/faketime/libfaketimeMT.so.1" }
            .first { FileManager.default.fileExists(atPath: $0) }
    }()

    /// The environment in which wall clocks are off by so many seconds, and timers are not.
    static func fakeTime(_ library: String, offsetSeconds: Int) -> [String: String] {
        [
            "LD_PRELOAD": library, "FAKETIME": "\(offsetSeconds < 0 ? "" : "+")\(offsetSeconds)",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
        ]
    }

    /// Runs a program to its end; gives the signal that ended it, 0 for none, and what it said.
    static func run(
        _ line: [String], environment: [String: String] = [:]
    ) -> (code: Int32, signal: Int32, output: String) {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: line[0])
        process.arguments = Array(line.dropFirst())
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        do { try process.run() } catch { return (127, 0, "") }
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        let status = process.terminationStatus
        let isSignal = process.terminationReason == .uncaughtSignal
        return (
            isSignal ? 0 : status, isSignal ? status : 0, String(decoding: bytes, as: UTF8.self)
        )
    }
}

/// A file system in memory of a few megabytes, mounted for one test.
struct SmallVolume: Sendable {
    let folder: URL

    init(at folder: URL, megabytes: Int) throws {
        self.folder = folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        do {
            try mount(["-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", folder.path])
        } catch {
            try? FileManager.default.removeItem(at: folder)
            throw error
        }
    }

    /// Makes it larger, with all that is in it.
    func grow(toMegabytes megabytes: Int) throws {
        try mount(["-o", "remount,size=\(megabytes)m", folder.path])
    }

    private func mount(_ arguments: [String]) throws {
        guard let program = MachineAbilities.program("mount"),
            MachineAbilities.run([program] + arguments).code == 0
        else { throw EndToEndError("mount \(arguments.joined(separator: " ")) failed") }
    }

    /// Takes it away, with all that is in it.
    func unmount() {
        if let program = MachineAbilities.program("umount") {
            _ = MachineAbilities.run([program, folder.path])
        }
        try? FileManager.default.removeItem(at: folder)
    }
}
