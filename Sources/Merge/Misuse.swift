/// A place in a program's source.
package struct SourcePlace: Sendable {
    /// The file, with its module.
    package let file: StaticString
    /// The line, from 1.
    package let line: UInt

    /// Keeps what a caller's `#fileID` and `#line` say.
    package init(_ file: StaticString, _ line: UInt) {
        self.file = file
        self.line = line
    }
}

/// Ends the program because of a programmer's error, and prints what is wrong and where. Release builds
/// print it too; Swift's `preconditionFailure` drops its message there.
package func misuse(_ message: String, at place: SourcePlace) -> Never {
    fatalError(message, file: place.file, line: place.line)
}

/// Ends the program as ``misuse(_:at:)`` does, unless a condition holds.
@inline(__always)
package func require(
    _ condition: Bool, _ message: @autoclosure () -> String, at place: SourcePlace
) {
    if !condition { misuse(message(), at: place) }
}
