import Glibc

/// Bytes that grow at their end, moved as blocks only.
///
/// Memory safety: `start` points at `capacity` allocated bytes. The first `count` of them are
/// initialised. Every access is checked against them, and the store cannot be copied, so that the
/// bytes are freed once.
struct ByteStore: ~Copyable {
    /// How many bytes there are.
    private(set) var count = 0
    private var capacity = 0
    private var start: UnsafeMutableRawPointer?

    init() {}

    init(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { write($0, at: 0) }
    }

    deinit { free(start) }

    /// The bytes as they are now; not to be kept.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }

    /// Makes it longer, with zeros, or shorter.
    mutating func resize(to length: Int) {
        guard length > count else {
            count = max(0, length)
            return
        }
        reserve(length)
        if let start { memset(start + count, 0, length - count) }
        count = length
    }

    /// Writes over what is there or past it; a gap becomes zeros.
    mutating func write(_ source: UnsafeRawBufferPointer, at offset: Int) {
        guard let first = source.baseAddress, !source.isEmpty, offset >= 0 else { return }
        if offset > count { resize(to: offset) }
        let end = offset + source.count
        reserve(end)
        if let start { memcpy(start + offset, first, source.count) }
        count = max(count, end)
    }

    /// Reads into a buffer.
    ///
    /// - Returns: how many bytes there were.
    func read(into target: UnsafeMutableRawBufferPointer, from offset: Int) -> Int {
        let length = min(target.count, count - offset)
        guard offset >= 0, length > 0, let start, let first = target.baseAddress else { return 0 }
        memcpy(first, start + offset, length)
        return length
    }

    /// Becomes the same as another.
    mutating func copy(_ other: borrowing ByteStore) {
        count = 0
        write(other.bytes, at: 0)
    }

    /// Flips one bit; false where there is no such byte.
    mutating func flip(_ offset: Int, bit: Int) -> Bool {
        guard let start, offset >= 0, offset < count else { return false }
        let byte = (start + offset).load(as: UInt8.self)
        (start + offset).storeBytes(of: byte ^ (1 << UInt8(bit & 7)), as: UInt8.self)
        return true
    }

    private mutating func reserve(_ length: Int) {
        guard length > capacity else { return }
        capacity = max(length, capacity * 2, 4096)
        guard let grown = realloc(start, capacity) else {
            fatalError("No memory for a simulated file of \(capacity) bytes.")
        }
        start = grown
    }
}
