import Foundation

/// This process's memory.
enum Memory {
    /// The most memory that is used within a closure, beyond what was used before it, in bytes.
    static func peak(_ body: () throws -> Void) throws -> Double {
        let before = begin()
        try body()
        return used(since: before)
    }

    /// The same of asynchronous work.
    static func peak(_ body: () async throws -> Void) async throws -> Double {
        let before = begin()
        try await body()
        return used(since: before)
    }

    private static func begin() -> Double {
        let before = kilobytes("VmRSS:")
        // The kernel's mark begins again.
        try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs"))
        return before
    }

    private static func used(since before: Double) -> Double {
        max(1, kilobytes("VmHWM:") - before) * 1024
    }

    private static func kilobytes(_ name: String) -> Double {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(separator: " ").compactMap { Double($0) }.first ?? 0
    }
}
