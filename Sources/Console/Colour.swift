// Colours of a terminal.

/// The few colours there are.
package enum Colour: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
    case yellow = "33"
    case cyan = "36"
}

/// Paints text, or leaves it as it is.
package struct Style: Sendable {
    /// Whether text is painted.
    package let isEnabled: Bool

    package init(isEnabled: Bool) { self.isEnabled = isEnabled }

    /// The text in a colour.
    package func paint(_ text: String, _ colour: Colour?) -> String {
        guard isEnabled, let colour, !text.isEmpty else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }
}
