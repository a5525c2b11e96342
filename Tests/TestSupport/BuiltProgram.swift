public import Foundation

/// A program of the package that was not built.
public struct MissingProgram: Error, CustomStringConvertible {
    /// Its name.
    public let name: String
    /// What to do.
    public var description: String { "Build the product \(name) first, or say where it is." }
}

/// The package's programs, which lie beside the test bundle.
public enum BuiltProgram {
    /// Where a program is; TRIBUTARY_PROGRAM in the environment goes before what is found.
    public static func find(_ name: String = "tributary") throws -> URL {
        let manager = FileManager.default
        if name == "tributary", let path = ProcessInfo.processInfo.environment["TRIBUTARY_PROGRAM"]
        {
            return URL(fileURLWithPath: path)
        }
        // On Linux the test bundle is an executable beside the package's other products.
        var places = [Bundle.main.bundleURL]
        places += CommandLine.arguments.filter { $0.contains(".build/") || $0.contains(".xctest") }
            .map { URL(fileURLWithPath: $0) }
        if let path = try? manager.destinationOfSymbolicLink(atPath: "/proc/self/exe") {
            places.append(URL(fileURLWithPath: path))
        }
        for folder in places.flatMap({ [$0, $0.deletingLastPathComponent()] }) {
            let program = folder.appendingPathComponent(name)
            var isFolder: ObjCBool = false
            if manager.fileExists(atPath: program.path, isDirectory: &isFolder),
                !isFolder.boolValue, manager.isExecutableFile(atPath: program.path)
            {
                return program
            }
        }
        throw MissingProgram(name: name)
    }
}
