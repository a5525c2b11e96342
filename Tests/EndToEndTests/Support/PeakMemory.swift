import Foundation

extension NodeHandle {
    /// Starts to measure again how much memory the node holds at the most.
    ///
    /// - Returns: what it holds now, in bytes.
    func beginPeak() throws -> Int {
        guard let process else { throw EndToEndError("Node \(number) does not run") }
        // 5 sets the mark of the highest residence back to what is resident.
        try Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/\(process.pid)/clear_refs"))
        return residentBytes
    }

    /// The most that the node has held since ``beginPeak()``, in bytes, even for a moment.
    func peak() throws -> Int {
        guard let process else { throw EndToEndError("Node \(number) does not run") }
        let text = try String(contentsOfFile: "/proc/\(process.pid)/status", encoding: .utf8)
        for line in text.split(separator: "\n") where line.hasPrefix("VmHWM:") {
            let number = line.split(whereSeparator: { !$0.isNumber }).first
            return (number.flatMap { Int($0) } ?? 0) * 1024
        }
        throw EndToEndError("Node \(self.number) has no mark of the memory it held")
    }
}

/// Bytes as people read them.
func megabytes(_ bytes: Int) -> String { "\(bytes >> 20) MiB" }
