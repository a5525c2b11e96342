import Foundation
import GRDBSQLite

/// The machine that a figure was measured on.
enum Machine {
    /// A Markdown list of processor, memory, system, file system and libraries.
    ///
    /// - Parameter directory: where the stores are.
    static func description(storesIn directory: String) -> String {
        let processor =
            value(of: "model name", in: "/proc/cpuinfo") ?? "unknown processor"
        let kilobytes = value(of: "MemTotal", in: "/proc/meminfo")?.split(separator: " ").first
        let gibibytes = (kilobytes.flatMap { Double($0) } ?? 0) / 1_048_576
        let load = contents("/proc/loadavg").split(separator: " ").prefix(3)
        return """
            - Processor: \(processor), \(ProcessInfo.processInfo.activeProcessorCount) cores
            - Memory: \(Figures.text(gibibytes, 1)) GiB
            - Kernel: Linux \(contents("/proc/sys/kernel/osrelease"))
            - File system: \(fileSystem(of: directory))
            - SQLite \(String(cString: sqlite3_libversion())), libzmq \(zeroMQVersion)
            - Load when it began (1, 5, 15 minutes): \(load.joined(separator: ", "))

            """
    }

    /// A file of /proc. The kernel gives a page at a time, so it is read until nothing more comes.
    private static func contents(_ path: String) -> String {
        let data = try? FileHandle(forReadingAtPath: path)?.readToEnd()
        return data.map { String(decoding: $0, as: UTF8.self) }?
            .trimmingCharacters(in: .whitespacesAndNewlines) ?? "unknown"
    }

    private static func value(of key: String, in path: String) -> String? {
        for line in contents(path).split(separator: "\n") where line.hasPrefix(key) {
            return line.split(separator: ":").last.map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
        return nil
    }

    private static func fileSystem(of directory: String) -> String {
        let path = URL(fileURLWithPath: directory).standardizedFileURL.path + "/"
        var best = (mount: "", text: "unknown")
        for line in contents("/proc/mounts").split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 3 else { continue }
            let mount = String(fields[1])
            let prefix = mount.hasSuffix("/") ? mount : mount + "/"
            if path.hasPrefix(prefix), mount.count >= best.mount.count {
                best = (mount, "\(fields[2]) (\(fields[3]))")
            }
        }
        return best.text
    }

    /// From the name of the library's file that this process has mapped.
    private static var zeroMQVersion: String {
        for line in contents("/proc/self/maps").split(separator: "\n") {
            guard let path = line.split(separator: " ").last, path.contains("libzmq.so") else {
                continue
            }
            let real = URL(fileURLWithPath: String(path)).resolvingSymlinksInPath().path
            return real.components(separatedBy: ".so.").last ?? "unknown"
        }
        return "not loaded"
    }
}
