// The inspector on a terminal: keys and answers go in, screens and requests come out.

import Console
import Coordinator
import Foundation
import Inspector

/// Runs the inspector until somebody ends it.
final class InspectorSession: Sendable {
    private let interface: any ClientInterface
    private let source: InspectorSource
    private let painter: ScreenPainter
    private let isASCII: Bool
    private let startsWithMouse: Bool
    private let terminal = RawTerminal()
    private let mailbox = InspectorMailbox()
    private let signals: TerminalSignals

    /// The clock ticks so often, for ages and for what is asked again.
    private static let tick = Duration.milliseconds(250)
    /// After an escape the rest of a key's sequence comes within this, in milliseconds.
    private static let pause: Int32 = 40

    init(
        interface: any ClientInterface, source: InspectorSource, isColoured: Bool, isASCII: Bool,
        startsWithMouse: Bool
    ) throws {
        signals = try TerminalSignals()
        self.interface = interface
        self.source = source
        self.isASCII = isASCII
        self.startsWithMouse = startsWithMouse
        painter = ScreenPainter(isColoured: isColoured)
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

    /// Shows the inspector until it is quit.
    ///
    /// - Throws: ``CommandFailure`` where the terminal refuses.
    func run() async throws {
        try terminal.take()
        defer { terminal.giveBack() }
        readKeys()
        let clock = Task { [mailbox] in
            while !Task.isCancelled {
                try await Task.sleep(for: Self.tick)
                mailbox.send(.event(.tick(Self.now)))
            }
        }
        defer { clock.cancel() }
        var state = InspectorState(
            source: source, size: terminal.size, isASCII: isASCII, now: Self.now)
        var shown: Screen?
        var effects = state.begin()
        if startsWithMouse { effects += state.apply(.key(.character("m"))) }
        while true {
            for effect in effects {
                switch effect {
                case .request(let request): make(request)
                case .quit: return
                case .suspend:
                    try suspend(&state)
                    shown = nil
                case .redraw: shown = nil
                case .mouse(let isOn): terminal.setMouse(isOn)
                }
            }
            let screen = Renderer.render(state)
            terminal.write(painter.bytes(from: shown, to: screen))
            shown = screen
            effects = []
            for letter in await mailbox.take() {
                switch letter {
                case .event(let event): effects += state.apply(event)
                case .resized: effects += state.apply(.resize(terminal.size))
                case .suspend: effects.append(.suspend)
                case .resumed:
                    // Somebody else may have had the terminal.
                    terminal.giveBack()
                    try terminal.take()
                    if state.isMouseOn { terminal.setMouse(true) }
                    effects += state.apply(.resize(terminal.size))
                case .end: effects.append(.quit)
                }
            }
        }
    }

    // MARK: Requests

    private func make(_ request: InspectorRequest) {
        Task { [interface, mailbox] in
            let event: InspectorEvent
            do {
                let answer = try await interface.request(
                    request.method, request.path, request.body)
                event = .answered(
                    request.purpose, InspectorAnswer.read(request.purpose, answer.json))
            } catch {
                event = .failed(
                    request.purpose, Self.failure(CommandFailure(describing: error), request))
            }
            mailbox.send(.event(event))
        }
    }

    private static func failure(
        _ failure: CommandFailure, _ request: InspectorRequest
    ) -> InspectorFailure {
        let answer = failure.answer.flatMap { try? JSONParser.parse($0) }?.object?["error"]?.object
        // The advice after a message is about commands, which here are keys.
        let message = answer?["message"]?.string ?? failure.message
        let isAnswered = failure.answer != nil || failure.code != .noAnswer
        return InspectorFailure(
            status: isAnswered ? status(failure) : 0, code: failure.name,
            message: CommandFailure.sentence(message),
            mayHaveHappened: request.isChange && failure.mayHaveHappened)
    }

    /// A status of the answer's kind: commands keep only its meaning.
    private static func status(_ failure: CommandFailure) -> Int {
        switch failure.code {
        case .usage: 400
        case .refused: 409
        case .notAuthorised: 403
        default: failure.name.hasSuffix("otFound") ? 404 : 500
        }
    }

    // MARK: Keys and signals

    private func readKeys() {
        Thread.detachNewThread { [mailbox, signals] in
            var decoder = KeyDecoder()
            var chunk = [UInt8](repeating: 0, count: 4_096)
            while true {
                var entries = [
                    pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0),
                ]
                let ready = poll(&entries, 2, decoder.isPending ? Self.pause : -1)
                if ready < 0, errno == EINTR { continue }
                for signal in entries[1].revents == 0 ? [] : signals.take() {
                    mailbox.send(Self.letter(signal))
                }
                var keys: [Key] = []
                if ready == 0 {
                    keys = decoder.flush()
                } else if entries[0].revents != 0 {
                    let count = read(STDIN_FILENO, &chunk, chunk.count)
                    if count < 0, errno == EINTR || errno == EAGAIN { continue }
                    guard count > 0 else { return mailbox.send(.end) }
                    keys = decoder.feed(chunk.prefix(count))
                }
                for key in keys { mailbox.send(.event(.key(key))) }
            }
        }
    }

    private static func letter(_ signal: Int32) -> InspectorMailbox.Letter {
        switch signal {
        case SIGWINCH: .resized
        case SIGTSTP: .suspend
        case SIGCONT: .resumed
        default: .end
        }
    }

    /// Gives the terminal back and stops, as Ctrl-Z does with other programs, until it is continued.
    private func suspend(_ state: inout InspectorState) throws {
        terminal.giveBack()
        // Here it goes on after `fg`; at once where no shell could continue it.
        signals.stop()
        try terminal.take()
        if state.isMouseOn { terminal.setMouse(true) }
        _ = state.apply(.resize(terminal.size))
        _ = state.apply(.tick(Self.now))
    }
}
