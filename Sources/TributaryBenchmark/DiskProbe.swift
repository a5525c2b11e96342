import Foundation

/// The disk's own latency: how long it takes to write a page and have it on disk.
///
/// Durable figures mean nothing without it.
enum DiskProbe {
    /// Writes pages and waits for each.
    ///
    /// - Returns: the seconds each took.
    static func samples(in workspace: Workspace, count: Int = 200) throws -> [Double] {
        let path = workspace.file("probe")
        let file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0o600)
        guard file >= 0 else { throw BenchmarkError("\(path) cannot be written.") }
        defer {
            close(file)
            unlink(path)
        }
        let page = [UInt8](repeating: 0x5A, count: 4096)
        // The space is there before: what is measured is writing, not growing.
        for index in 0..<256 { _ = pwrite(file, page, page.count, off_t(index * page.count)) }
        fsync(file)
        return try (0..<count).map { index in
            let start = Clocks.seconds()
            guard pwrite(file, page, page.count, off_t((index % 256) * page.count)) == page.count,
                fdatasync(file) == 0
            else { throw BenchmarkError("The disk refused a write.") }
            return Clocks.seconds() - start
        }
    }

    /// One line about the disk, for under a table.
    static func note(_ samples: [Double]) -> String {
        let median = Figures.median(samples)
        return "The disk in the same run: one page with fdatasync takes "
            + "\(Figures.milliseconds(median)) (median), "
            + "\(Figures.milliseconds(Figures.percentile(0.99, of: samples))) (p99); "
            + "\(Figures.text(median > 0 ? 1 / median : 0, 0)) a second."
    }
}
