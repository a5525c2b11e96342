/// How a cell of the screen looks.
package struct CellStyle: Hashable, Sendable {
    /// The colours there are: those that every terminal has, whatever its background.
    package enum Hue: UInt8, Sendable {
        case plain
        case red
        case green
        case yellow
        case blue
        case cyan
    }

    /// The colour of the text.
    package var hue = Hue.plain
    /// Whether the text is bold.
    package var isBold = false
    /// Whether the text is fainter than others.
    package var isDim = false
    /// Whether text and background are exchanged.
    package var isReversed = false
    /// Whether there is a line under the text.
    package var isUnderlined = false

    /// Text as it is.
    package static let plain = CellStyle()
    /// A heading.
    package static let bold = CellStyle(isBold: true)
    /// What matters less.
    package static let dim = CellStyle(isDim: true)
    /// What is chosen.
    package static let reversed = CellStyle(isReversed: true)
    /// An error, or what waits for somebody.
    package static let red = CellStyle(hue: .red)
    /// What is right, and what readers see.
    package static let green = CellStyle(hue: .green)
    /// What is worth a look.
    package static let yellow = CellStyle(hue: .yellow)
    /// A name that can be copied.
    package static let cyan = CellStyle(hue: .cyan)
    /// A key, or a place that can be gone to.
    package static let key = CellStyle(hue: .cyan, isBold: true)
    /// What differs from what it is compared with.
    package static let changed = CellStyle(hue: .yellow, isBold: true, isUnderlined: true)

    /// The same as one of the chosen row.
    package var chosen: CellStyle {
        var style = self
        style.isReversed = true
        return style
    }
}

/// A piece of text in one style.
package struct Span: Hashable, Sendable {
    /// The text, as it was stored: the screen makes control characters visible.
    package let text: String
    /// Its style.
    package let style: CellStyle

    /// A piece of text.
    package init(_ text: String, _ style: CellStyle = .plain) {
        self.text = text
        self.style = style
    }
}

/// A line of pieces.
package typealias StyledLine = [Span]
