import Foundation

/// The processes of servers: the first of each, and all below it.
///
/// Figures are the kernel's, from /proc. They exist on Linux only.
struct ProcessGroup {
    private let processes: [pid_t: Entry]

    private struct Entry {
        var parent: pid_t
        var ticks: Int
    }

    /// Finds what runs now.
    init(below roots: [pid_t]) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        var entries: [pid_t: Entry] = [:]
        for case let process? in names.map({ pid_t($0) }) { entries[process] = Self.entry(process) }
        processes = entries.filter { process, _ in
            var ancestor = process
            while !roots.contains(ancestor) {
                guard let entry = entries[ancestor] else { return false }
                ancestor = entry.parent
            }
            return true
        }
    }

    /// Seconds of processor time, with that of children that have ended.
    var processorSeconds: Double {
        Double(processes.values.reduce(0) { $0 + $1.ticks }) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Resident bytes, with pages that several share counted in each.
    var residentBytes: Double { bytes("VmRSS:", in: "status") }

    /// Resident bytes, with pages that several share divided among them.
    var proportionalBytes: Double { bytes("Pss:", in: "smaps_rollup") }

    /// How often threads that live have given their processor up by themselves.
    var switches: Int {
        processes.keys.reduce(0) { sum, process in
            let folder = "/proc/\(process)/task"
            let threads = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return sum
                + threads.reduce(0) { sum, thread in
                    let lines = Self.contents(process, "task/\(thread)/status").split(
                        separator: "\n")
                    let line = lines.first { $0.hasPrefix("voluntary_ctxt_switches:") }
                    return sum + (line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0)
                }
        }
    }

    private static func entry(_ process: pid_t) -> Entry? {
        // The name of the program, in parentheses, may have spaces.
        let fields = contents(process, "stat").split(separator: ")").last?.split(separator: " ")
        guard let fields, fields.count > 14, let parent = pid_t(fields[1]) else { return nil }
        return Entry(parent: parent, ticks: fields[11...14].reduce(0) { $0 + (Int($1) ?? 0) })
    }

    private static func contents(_ process: pid_t, _ file: String) -> String {
        (try? String(contentsOfFile: "/proc/\(process)/\(file)", encoding: .utf8)) ?? ""
    }

    private func bytes(_ key: String, in file: String) -> Double {
        processes.keys.reduce(0) { sum, process in
            let lines = Self.contents(process, file).split(separator: "\n")
            let line = lines.first { $0.hasPrefix(key) }
            let kilobytes = line?.split(separator: " ").dropFirst().first.flatMap { Double($0) }
            return sum + (kilobytes ?? 0) * 1024
        }
    }
}
