public import Foundation

/// Where stores of tests are kept whose durability nothing depends on.
public enum StoreFolders {
    /// Room that all tests of a run have together, with much to spare: they have used 70 MiB.
    private static let enough = 1 << 30

    /// In memory where the system has a folder for that with room enough, else the folder for
    /// temporary files: thousands of saves would wait for the disk. Containers often have such
    /// a folder of 64 MiB, where tests failed that had nothing to do with what is in it.
    public static let parent: URL = {
        let memory = "/dev/shm"
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: memory)
        let free = (attributes?[.systemFreeSize] as? NSNumber)?.intValue ?? 0
        return free >= enough && FileManager.default.isWritableFile(atPath: memory)
            ? URL(fileURLWithPath: memory) : FileManager.default.temporaryDirectory
    }()
}
