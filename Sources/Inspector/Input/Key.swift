/// What a person pressed, pasted or clicked.
package enum Key: Hashable, Sendable {
    /// A letter, digit or sign.
    case character(Character)
    /// A letter together with Ctrl, as its small letter.
    case control(Character)
    case enter
    case tab
    case backTab
    case escape
    case backspace
    case delete
    case up
    case down
    case left
    case right
    case home
    case end
    case pageUp
    case pageDown
    /// Text that was pasted at once.
    case paste(String)
    /// A button of the mouse that went down at a place, counted from 0.
    case click(row: Int, column: Int)
    /// A turn of the wheel.
    case wheel(isDown: Bool, row: Int, column: Int)
}
