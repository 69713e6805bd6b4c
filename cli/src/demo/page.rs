//! The demo's page: one file, no script, nothing fetched.

use super::chart::Chart;
use super::{Demo, Point, heading, rows};
use crate::html::{self, escape};

/// The page.
pub(super) fn html(demo: &Demo) -> String {
    let x: Vec<usize> = demo.points.iter().map(|p| p.connections).collect();
    let column = |of: fn(&Point) -> f64| -> Vec<f64> { demo.points.iter().map(of).collect() };
    let goodput = Chart {
        label: "Goodput over connections, unguarded and guarded",
        unit: " Mb/s",
        x: &x,
        unguarded: &column(|p| p.unguarded.goodput_mbps),
        guarded: &column(|p| p.guarded.goodput_mbps),
        top: demo.ceiling_mbps.max(1.0),
        level: Some(("without congestion", demo.ceiling_mbps)),
    };
    let timeouts = Chart {
        label: "Percent of rounds with a retransmission timeout, unguarded and guarded",
        unit: " %",
        x: &x,
        unguarded: &column(|p| p.unguarded.timeout_percent()),
        guarded: &column(|p| p.guarded.timeout_percent()),
        top: 100.0,
        level: None,
    };
    let figure = |title: &str, caption: &str, chart: &Chart<'_>| {
        format!(
            "<figure><h2>{title}</h2><figcaption>{caption}<br><span class=\"key\">unguarded</span><span class=\"key \
             good\">guarded ({})</span></figcaption>\n{}</figure>\n",
            escape(demo.guard),
            chart.svg()
        )
    };
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let body: String = rows(demo).iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    let notes: String = demo.notes.iter().map(|note| format!("<p class=\"faint\">{}</p>\n", escape(note))).collect();
    let page = format!(
        "<h1>TCP incast, with and without a guard</h1>\n<p \
         class=\"faint\">{}.</p>\n{}<div class=\"charts\">\n{}{}</div>\n<div \
         class=\"scroll\"><table><thead><tr><th></th><th colspan=\"2\">goodput (Mb/s)</th><th colspan=\"2\">rounds with a timeout</th><th \
         colspan=\"2\">slowest rounds (p99, ms)</th></tr><tr>{}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{notes}<footer>Linux {}, \
         {} x {}. Made by <code>ackgate demo</code> {}.</footer>\n",
        escape(&heading(demo)),
        findings(demo),
        figure("Goodput (Mb/s)", "Payload over time in all rounds. Higher is better.", &goodput),
        figure(
            "Rounds with a timeout (%)",
            "A sender waited for its retransmission timer. Lower is better.",
            &timeouts
        ),
        cells(
            "th",
            &["connections", "unguarded", "guarded", "unguarded", "guarded", "unguarded", "guarded"].map(str::to_owned)
        ),
        escape(&demo.machine.kernel),
        demo.machine.cpus,
        escape(&demo.machine.cpu),
        env!("CARGO_PKG_VERSION"),
    );
    html::document("ackgate: TCP incast with and without a guard", &page)
}

/// The point where the two differ most, in three figures, whichever way they differ. Where no round ended in time there is nothing to
/// compare rounds with.
fn findings(demo: &Demo) -> String {
    let gain = |p: &Point| p.guarded.goodput_mbps / p.unguarded.goodput_mbps.max(1e-9);
    let comparable = demo.points.iter().filter(|p| p.unguarded.rounds > 0 && p.guarded.rounds > 0);
    let Some(most) = comparable.max_by(|a, b| gain(a).total_cmp(&gain(b))) else { return String::new() };
    let card = |value: String, what: String| format!("<div><b>{value}</b><span>{}</span></div>\n", escape(&what));
    let (before, after) = (&most.unguarded, &most.guarded);
    format!(
        "<div class=\"finding\">\n{}{}{}</div>\n",
        card(
            format!("{:.0} &rarr; {:.0} Mb/s", before.goodput_mbps, after.goodput_mbps),
            format!("goodput at {} connections, unguarded to guarded", most.connections)
        ),
        card(
            format!("{} &rarr; {} timeouts", before.rto_timeouts, after.rto_timeouts),
            format!("in {} and {} rounds", before.rounds, after.rounds)
        ),
        card(
            format!("{:.0} &rarr; {:.0} ms", before.round_p99_ms, after.round_p99_ms),
            "slowest rounds (99th percentile)".into()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;
    use ackgate_lab::machine::Machine;

    fn demo() -> Demo {
        let outcome = |goodput_mbps, rounds_with_timeout| Outcome {
            goodput_mbps,
            rounds: 10,
            rounds_with_timeout,
            rto_timeouts: 7,
            retransmits: 70,
            switch_drops: 70,
            round_p99_ms: 312.0,
        };
        let point = |connections, bad, timeouts| Point {
            connections,
            unguarded: outcome(bad, timeouts),
            guarded: outcome(181.0, 0),
        };
        Demo {
            on: "kernel",
            guard: "pac",
            rate_mbps: 200.0,
            buffer: 96_000,
            bytes: 64_000,
            rounds_asked: 10,
            ceiling_mbps: 187.0,
            points: vec![point(8, 188.0, 0), point(64, 100.0, 9), point(200, 41.0, 10)],
            machine: Machine { kernel: "6.18".into(), cpu: "A <fast> & \"good\" one".into(), cpus: 2 },
            notes: vec!["A note.".into()],
        }
    }

    #[test]
    fn it_stands_alone_and_is_closed() {
        html::stands_alone(&html(&demo())).unwrap();
    }

    #[test]
    fn where_no_round_ended_nothing_is_compared() {
        let mut demo = demo();
        demo.points[2].unguarded =
            Outcome { goodput_mbps: 0.0, rounds: 0, rounds_with_timeout: 0, ..demo.points[2].unguarded };
        let page = html(&demo);
        assert!(page.contains("at 64 connections") && !page.contains("at 200 connections"));
        assert!(page.contains("<td>none ended</td>"));
    }

    #[test]
    fn it_shows_both_curves_and_where_they_differ_most() {
        let page = html(&demo());
        assert_eq!(page.matches("<polyline").count(), 4);
        assert!(page.contains("41 &rarr; 181 Mb/s") && page.contains("at 200 connections"));
        assert!(page.contains("A &lt;fast&gt; &amp; &quot;good&quot; one"));
        assert!(page.contains("<td>10 of 10</td><td>0 of 10</td>"));
    }
}
