// What the HTTP interface measures of itself.

extension HTTPServices {
    /// Gauges and counters of reads and answers, in Prometheus' text format.
    var metricsText: String {
        var writer = ExpositionWriter()
        let reads = lanes.gauges
        writer.write(
            "tributary_http_reads_running", .gauge, "Reads of clients under way, by kind.",
            [
                ([("kind", "short")], Double(reads.running - reads.runningLong)),
                ([("kind", "long")], Double(reads.runningLong)),
            ])
        writer.write(
            "tributary_http_reads_waiting", .gauge, "Reads of clients that wait, by kind.",
            [
                ([("kind", "short")], Double(reads.waiting)),
                ([("kind", "long")], Double(reads.waitingLong)),
            ])
        let totals: [(String, String, UInt64)] = [
            (
                "tributary_http_reads_abandoned_total", "Reads that ended with their client.",
                reads.abandoned
            ),
            (
                "tributary_http_reads_restarted_total",
                "Long reads that gave way to others and began anew.", reads.gaveWay
            ),
            (
                "tributary_http_reads_refused_total", "Reads refused, for too many waited.",
                reads.refused
            ),
            (
                "tributary_http_answers_refused_total",
                "Answers refused, for too many bytes were under way.", answers.refused
            ),
            (
                "tributary_http_slow_clients_total",
                "Clients cut off that took nothing of their answer for too long.", writes.cutOff
            ),
        ]
        for (name, help, value) in totals { writer.write(name, .counter, help, Double(value)) }
        writer.write(
            "tributary_http_answer_bytes", .gauge, "Bytes of answers being made or sent.",
            Double(answers.bytes))
        writer.write(
            "tributary_http_writes_waiting", .gauge, "Writes that clients are to make room for.",
            Double(writes.count))
        return writer.text
    }
}
