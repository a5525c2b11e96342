// Colours of a terminal.

/// The few colours there are.
enum Colour: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
    case yellow = "33"
    case cyan = "36"
}

/// Paints text, or leaves it as it is.
struct Style: Sendable {
    /// Whether text is painted.
    let isEnabled: Bool

    /// The text in a colour.
    func paint(_ text: String, _ colour: Colour?) -> String {
        guard isEnabled, let colour, !text.isEmpty else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }
}
