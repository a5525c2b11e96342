/// A place where a process is killed: at its k-th system call of a kind, while it does something.
///
/// The calls are those with which SQLite writes: pages into the write-ahead log, their
/// synchronisation, pages back into the store at a checkpoint, and the truncation of files. (In this
/// mode it renames nothing.) Calls are counted for each thread by itself; a point that is not
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
    }

    let phase: Phase
    let file: File
    /// Names of system calls, with commas.
    let calls: String
    /// The how manieth of them kills, from 1.
    let occurrence: Int

    var description: String {
        "\(phase.rawValue), \(calls) \(occurrence) of \(file == .log ? "the log" : "the store")"
    }

    /// The tracer's line, to which the program's is added.
    func launcher(strace: String, store: String) -> [String] {
        [
            strace, "-D", "-f", "-qq", "-o", "/dev/null", "-P", store + file.rawValue,
            "-e", "trace=pwrite64,fsync,fdatasync,ftruncate",
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
            // Steps of a number that has no divisor in common with it visit all places.
            let step = kind.last > 5 ? kind.last * 5 / 8 | 1 : 1
            let occurrence = (used[place] * step) % kind.last + 1
            used[place] += 1
            return KillPoint(
                phase: kind.phase, file: kind.file, calls: kind.calls, occurrence: occurrence)
        }
    }
}
