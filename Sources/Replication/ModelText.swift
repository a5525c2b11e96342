/// A model as the protocol knows it: it compares hashes and carries texts, and reads neither.
public struct ModelText: Hashable, Sendable {
    /// The version hash, 32 bytes.
    public var hash: [UInt8]
    /// The model as JSON in UTF-8; empty where it is too long to be sent.
    public var text: [UInt8]

    /// Pairs a hash with its text.
    public init(hash: [UInt8], text: [UInt8]) {
        self.hash = hash
        self.text = text
    }
}

/// The models that a node has had or knows of, the last being its own.
public struct ModelList: Hashable, Sendable {
    /// The most models in a list.
    public static let countLimit = 1_024

    /// Whether the list of the receiver came before, so that it need not be sent again.
    public var isAnswer: Bool
    /// The models, at least one.
    public var models: [ModelText]

    /// Composes a list.
    public init(isAnswer: Bool, models: [ModelText]) {
        self.isAnswer = isAnswer
        self.models = models
    }
}
