/// A store's room on disk and what holds it, for status and metrics.
package struct StoreSizes: Hashable, Sendable {
    /// The database file, in bytes.
    package var storeBytes: UInt64
    /// The write-ahead log's file, in bytes. It shrinks when the log starts over.
    package var walFileBytes: UInt64
    /// The part of it in use: what was written since it last started over.
    package var walBytes: UInt64
}

/// The pins of a store, for status and metrics.
package struct PinStatus: Hashable, Sendable {
    /// How many generations are pinned.
    package var count: Int
    /// The oldest pinned generation; nil where none is.
    package var oldestGeneration: UInt64?
    /// How long the oldest pin has lived, in milliseconds.
    package var oldestAgeMilliseconds: UInt64
}

extension PersistentStoreCoordinator {
    /// Gives up pins that have lived too long, and the oldest one while the write-ahead log is
    /// over its limit; and sees whether the store's files are still where they were opened, without which
    /// saves are refused (`storeRemoved`). Where readers overlap without a pause, so that no
    /// checkpoint comes to the log's end, it has them waited for, for a moment, after the next
    /// commit. To be called about every second, from any thread.
    ///
    /// One pin a call goes for the log's sake, since it shows with the next commits only whether
    /// that was enough. A reader of an expired pin gets `queryGenerationExpired`.
    ///
    /// - Returns: how many pins were given up.
    @discardableResult
    public func maintain() -> Int {
        watchFiles()
        let now = options.monotonicMilliseconds()
        var expired = 0
        var left: [GenerationPin] = []
        for pin in pins.living {
            if now - min(now, pin.pinnedAtMilliseconds) > options.pinLimitMilliseconds {
                pin.expire()
                expired += 1
            } else {
                left.append(pin)
            }
        }
        let walBytes = storeSizes().walBytes
        if let oldest = left.first, walBytes > options.walLimit {
            oldest.expire()
            expired += 1
        }
        // No pin holds it, and yet no checkpoint has come to its end: readers overlap.
        if left.isEmpty, walBytes > Self.overdue * UInt64(options.checkpointPages) * Self.pageBytes
        {
            writer?.askForLogRestart(patience: options.logRestartPatienceMilliseconds)
        }
        return expired
    }

    /// How much longer than its target the log is, while readers keep it from starting over.
    private static let overdue: UInt64 = 3
    private static let pageBytes: UInt64 = 4_096

    /// The pins that live now.
    package var pinStatus: PinStatus {
        let now = options.monotonicMilliseconds()
        let living = pins.living
        let eldest = living.map(\.pinnedAtMilliseconds).min() ?? now
        return PinStatus(
            count: living.count, oldestGeneration: living.first?.token.generation,
            oldestAgeMilliseconds: now - min(now, eldest))
    }

    /// The store's room on disk. It looks at files only and takes no lock.
    package func storeSizes() -> StoreSizes {
        let file = options.files.size(of: storePath + "-wal") ?? 0
        return StoreSizes(
            storeBytes: options.files.size(of: storePath) ?? 0, walFileBytes: file,
            walBytes: min(file, walBytesInUse() ?? file))
    }

    /// The log's file keeps much of its length when SQLite starts it over, so that says little. But
    /// each start draws a new salt, which the header and each frame since then carry; so the frames
    /// in use are the first ones with the header's salt (SQLite's "WAL format").
    ///
    /// The file is never locked, so that opening and closing it here takes no lock away from
    /// SQLite, as it would with the index beside it.
    private func walBytesInUse() -> UInt64? {
        let path = storePath + "-wal"
        let files = options.files
        func read(_ count: Int, at offset: UInt64) -> [UInt8]? {
            guard let bytes = files.read(path, from: offset, count: count), bytes.count == count
            else { return nil }
            return bytes
        }
        guard let header = read(32, at: 0), let end = files.size(of: path) else { return nil }
        let pageSize = header[8..<12].reduce(0) { $0 << 8 | UInt64($1) }
        guard (512...65_536).contains(pageSize) else { return nil }
        let salt = Array(header[16..<24])
        let frameSize = pageSize + 24
        var low: UInt64 = 0
        var high = (end - min(end, 32)) / frameSize
        while low < high {
            let middle = (low + high) / 2
            guard let frame = read(8, at: 32 + middle * frameSize + 8) else { return nil }
            if frame == salt { low = middle + 1 } else { high = middle }
        }
        return 32 + low * frameSize
    }
}
