/// A place where a process is killed: at its k-th system call of a kind, while it does something.
///
/// The calls are those with which SQLite writes: pages into the write-ahead log, their
/// synchronisation, pages back into the store at a checkpoint, and the truncation of files (in this
/// mode it renames nothing); and those that replace the file beside the store that names its last
/// incarnation. Calls are counted for each thread by itself; a point that is not
/// reached is no kill point, and is counted apart.
struct KillPoint: Hashable, Sendable, CustomStringConvertible {
    /// What the process does meanwhile.
    enum Phase: String, Sendable, CaseIterable {
        case opening, saving, applying, checkpointing
    }

    /// The file whose calls count.
    enum File: String, Sendable {
        case log = "-wal"
        case store = ""
        case record = "-incarnation"

        /// The files' paths: what is replaced is written under another name first.
        func paths(_ store: String) -> [String] {
            let path = store + rawValue
            return self == .record ? [path, path + "-new"] : [path]
        }

        fileprivate var name: String {
            switch self {
            case .log: "the log"
            case .store: "the store"
            case .record: "the record of its incarnation"
            }
        }
    }

    let phase: Phase
    let file: File
    /// Names of system calls, with commas.
    let calls: String
    /// The how manieth of them kills, from 1.
    let occurrence: Int

    var description: String {
        "\(phase.rawValue), \(calls) \(occurrence) of \(file.name)"
    }

    /// The tracer's line, to which the program's is added.
    func launcher(strace: String, store: String) -> [String] {
        [strace, "-D", "-f", "-qq", "-o", "/dev/null"] + file.paths(store).flatMap { ["-P", $0] }
            + [
                "-e", "trace=write,pwrite64,fsync,fdatasync,ftruncate,rename",
                "-e", "inject=\(calls):signal=KILL:when=\(occurrence)",
            ]
    }

    /// So many points, spread over all phases and calls; the same for the same number, and the
    /// points of a small number are spread as widely as those of a large one.
    static func points(_ count: Int) -> [KillPoint] {
        let sync = "fsync,fdatasync"
        // How many different calls of a kind a run of a phase makes.
        let kinds: [(phase: Phase, file: File, calls: String, last: Int, share: Int)] = [
            (.saving, .log, "pwrite64", 70, 7), (.applying, .log, "pwrite64", 60, 6),
            (.checkpointing, .store, "pwrite64", 14, 4), (.opening, .log, "pwrite64", 11, 3),
            (.opening, .record, "write", 1, 1), (.opening, .record, sync, 1, 1),
            (.opening, .record, "rename", 1, 1), (.checkpointing, .record, "rename", 2, 1),
            (.saving, .log, sync, 6, 3), (.applying, .log, sync, 3, 2),
            (.checkpointing, .store, sync, 1, 1), (.checkpointing, .log, "ftruncate", 1, 1),
            (.opening, .log, sync, 1, 1), (.checkpointing, .store, "ftruncate", 1, 1),
            (.checkpointing, .log, sync, 4, 1),
        ]
        var turns: [Int] = []
        let greatest = kinds.map(\.share).max() ?? 1
        for turn in 0..<greatest {
            turns += kinds.indices.filter { kinds[$0].share > turn }
        }
        var used = [Int](repeating: 0, count: kinds.count)
        return (0..<max(0, count)).map { index in
            let place = turns[index % turns.count]
            let kind = kinds[place]
            let step = step(through: kind.last)
            let occurrence = (used[place] * step) % kind.last + 1
            used[place] += 1
            return KillPoint(
                phase: kind.phase, file: kind.file, calls: kind.calls, occurrence: occurrence)
        }
    }

    /// A step of about five eighths of a number, with no divisor in common with it: so it comes to
    /// all places, and far from the last one each time.
    private static func step(through count: Int) -> Int {
        func divisor(_ a: Int, _ b: Int) -> Int { b == 0 ? a : divisor(b, a % b) }
        var step = max(1, count * 5 / 8)
        while divisor(count, step) != 1 { step += 1 }
        return step
    }
}
