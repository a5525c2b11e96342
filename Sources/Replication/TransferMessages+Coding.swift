import Merge

// The bytes of what is said of store transfers; see MessageCoding.swift.

extension TransferPull {
    func write(to writer: inout CBORWriter) {
        writer.beginArray(5)
        writer.write(id)
        writer.write(number)
        writer.write(offset)
        writer.write(credit)
        writer.write(vector)
    }

    init(from reader: inout CBORReader) throws(DecodingFailure) {
        try reader.array(exactly: 5)
        id = try reader.unsigned()
        number = try reader.unsigned()
        offset = try reader.unsigned()
        credit = try reader.unsigned()
        vector = try reader.vector()
    }
}

extension TransferPart {
    func write(to writer: inout CBORWriter) {
        writer.beginArray(copy == nil ? 1 : 6)
        writer.write(id)
        if let copy = copy {
            writer.write(copy.number)
            writer.write(copy.total)
            writer.write(copy.digest)
            writer.write(offset)
            writer.write(bytes)
        }
    }

    init(from reader: inout CBORReader) throws(DecodingFailure) {
        let count = try reader.array()
        guard count == 1 || count == 6 else {
            throw DecodingFailure("a part of a copy has 1 or 6 parts", offset: reader.offset)
        }
        id = try reader.unsigned()
        copy = nil
        offset = 0
        bytes = []
        guard count == 6 else { return }
        let number = try reader.unsigned()
        let total = try reader.unsigned()
        let digest = try reader.data()
        offset = try reader.unsigned()
        bytes = try reader.data()
        guard number > 0, digest.count == 16 else {
            throw DecodingFailure("a copy has no number or no digest", offset: reader.offset)
        }
        guard offset <= total, UInt64(bytes.count) <= total - offset,
            !bytes.isEmpty || offset == total
        else {
            throw DecodingFailure("a part does not lie in its copy", offset: reader.offset)
        }
        copy = TransferCopy(number: number, total: total, digest: digest)
    }
}
