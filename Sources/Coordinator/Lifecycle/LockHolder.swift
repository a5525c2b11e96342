import Glibc
import Merge

/// The holder of a store's lock, as its file names it.
///
/// It is one line: the run of the system, the file system, the file's number there, the node and
/// its incarnation. The first three are those of the lock file itself. So a copy of the file says
/// nothing, and neither does the file on another machine or after a power loss. If they fit, the
/// named process had this very lock, so it has ended if another process has the lock now.
enum LockHolder {
    /// A line is shorter.
    private static let longest = 256

    /// The process that had the lock before the present holder; nil if that is not certain.
    static func read(from descriptor: Int32) -> ActorID? {
        var bytes = [UInt8](repeating: 0, count: longest)
        let count = pread(descriptor, &bytes, longest, 0)
        guard count > 0, let place = place(of: descriptor),
            let text = String(validating: bytes[..<count], as: UTF8.self)
        else { return nil }
        let parts = text.split(whereSeparator: \.isWhitespace)
        guard text.hasSuffix("\n"), parts.count == 5, parts[..<3].map(String.init) == place,
            let node = UInt16(parts[3]).flatMap({ NodeID(Int($0)) }),
            let incarnation = UInt64(parts[4], radix: 16)
        else { return nil }
        return ActorID(node: node, incarnation: incarnation)
    }

    /// Writes down who has the lock. It need not outlive the power.
    static func write(_ holder: ActorID, to descriptor: Int32) {
        guard let place = place(of: descriptor) else { return }
        let incarnation = String(holder.incarnation, radix: 16)
        let line = (place + ["\(holder.node)", incarnation]).joined(separator: " ") + "\n"
        guard ftruncate(descriptor, 0) == 0 else { return }
        _ = pwrite(descriptor, line, line.utf8.count, 0)
    }

    private static func place(of descriptor: Int32) -> [String]? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, let run = systemRun else { return nil }
        return [run, "\(status.st_dev)", "\(status.st_ino)"]
    }

    /// A number that the kernel draws when it starts.
    private static var systemRun: String? {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count > 0, let text = String(validating: bytes[..<count], as: UTF8.self) else {
            return nil
        }
        return text.split(whereSeparator: \.isWhitespace).first.map(String.init)
    }
}
