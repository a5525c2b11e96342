/// A model as the protocol knows it: it compares hashes and carries texts, and reads neither.
package struct ModelText: Hashable, Sendable {
    /// The version hash, 32 bytes.
    package var hash: [UInt8]
    /// The model as JSON in UTF-8; empty where it is too long to be sent.
    package var text: [UInt8]

    /// Pairs a hash with its text.
    package init(hash: [UInt8], text: [UInt8]) {
        self.hash = hash
        self.text = text
    }
}

/// The models that a node has had or knows of, the last being its own.
package struct ModelList: Hashable, Sendable {
    /// The most models in a list.
    package static let countLimit = 1_024

    /// Whether the list of the receiver came before, so that it need not be sent again.
    package var isAnswer: Bool
    /// The models, at least one.
    package var models: [ModelText]

    /// Composes a list.
    package init(isAnswer: Bool, models: [ModelText]) {
        self.isAnswer = isAnswer
        self.models = models
    }
}
