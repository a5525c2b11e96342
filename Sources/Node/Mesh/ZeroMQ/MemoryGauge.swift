// What the process holds, asked often.
//
// Threading: belongs to the transport's thread.

internal import Glibc

/// The resident memory of this process, for one system call.
final class MemoryGauge {
    private let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Resident pages of 4 KiB; nil where the system does not tell.
    var pages: Int? {
        withUnsafeTemporaryAllocation(byteCount: 128, alignment: 1) { text in
            let count = pread(descriptor, text.baseAddress, text.count, 0)
            guard count > 0 else { return nil }
            // The second of several numbers.
            var isSecond = false
            var pages = 0
            for byte in text.prefix(count) {
                if byte == UInt8(ascii: " ") {
                    if isSecond { return pages }
                    isSecond = true
                } else if isSecond {
                    pages = pages &* 10 &+ Int(byte) &- Int(UInt8(ascii: "0"))
                }
            }
            return nil
        }
    }
}
