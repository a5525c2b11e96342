// Metrics of the HTTP interface's reads and answers.

extension HTTPServices {
    /// Reads and answers at one moment.
    struct Gauges {
        let reads: ReadLanes.Gauges
        let answers: AnswerBudget
        let writes: PendingWrites
    }

    /// The metrics in Prometheus' text format.
    var metricsText: String {
        Self.metrics.text(of: Gauges(reads: lanes.gauges, answers: answers, writes: writes))
    }

    static let metrics: [Metric<Gauges>] = [
        .gauge("tributary_http_reads_running", by: "kind", help: "Reads that run: short or long.") {
            [
                (["short"], Double($0.reads.running - $0.reads.runningLong)),
                (["long"], Double($0.reads.runningLong)),
            ]
        },
        .gauge(
            "tributary_http_reads_waiting", by: "kind",
            help: "Reads that wait for their turn: short or long."
        ) {
            [
                (["short"], Double($0.reads.waiting)),
                (["long"], Double($0.reads.waitingLong)),
            ]
        },
        .counter(
            "tributary_http_reads_abandoned_total", "Reads that ended because their client left."
        ) { $0.reads.abandoned },
        .counter(
            "tributary_http_reads_restarted_total",
            "Long reads that made way for others and started again."
        ) { $0.reads.gaveWay },
        .counter(
            "tributary_http_reads_refused_total", "Reads refused because too many others waited."
        ) { $0.reads.refused },
        .counter(
            "tributary_http_answers_refused_total",
            "Answers refused because all memory for answers was in use."
        ) { $0.answers.refused },
        .counter(
            "tributary_http_slow_clients_total",
            "Clients cut off because they took nothing of their answer for too long."
        ) { $0.writes.cutOff },
        .gauge("tributary_http_answer_bytes", "Memory of answers that are being made or sent.") {
            Double($0.answers.bytes)
        },
        .gauge("tributary_http_writes_waiting", "Writes that wait until their client reads.") {
            Double($0.writes.count)
        },
    ]
}
