// How many descriptors the process may have open.
//
// Threading: may be called from any thread; the limit is the whole process's.

internal import Glibc

/// The bound on the descriptors of this process.
enum DescriptorLimit {
    /// Raises it as far as an unprivileged process may.
    ///
    /// Most systems start a process with 1024, for the sake of programs that call `select`, which
    /// knows no higher ones; this one does not. A mesh of 256 peers takes thousands, and where none
    /// is left neither peers nor clients can be connected to. Where it cannot be raised, the node
    /// does with what there is.
    static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
