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
        var text = [UInt8](repeating: 0, count: 128)
        let count = pread(descriptor, &text, text.count, 0)
        guard count > 0 else { return nil }
        let fields = text.prefix(count).split(separator: UInt8(ascii: " "))
        guard fields.count > 1 else { return nil }
        return Int(String(decoding: fields[1], as: UTF8.self))
    }
}
