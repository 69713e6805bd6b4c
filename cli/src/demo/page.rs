//! The demo's page: one file, no script, nothing fetched.

use super::chart::Chart;
use super::{Demo, Point, heading, rows};

const STYLE: &str = "
:root { color-scheme: light dark; --ink:#1f2328; --faint:#59636e; --grid:#e4e7eb; --card:#fff; --page:#f6f8fa; --bad:#c2410c; --good:#0369a1 }
@media (prefers-color-scheme: dark) { :root { --ink:#e6edf3; --faint:#9198a1; --grid:#30363d; --card:#161b22; --page:#0d1117; --bad:#fb923c; --good:#38bdf8 } }
* { box-sizing:border-box }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,'Segoe UI','Helvetica Neue','DejaVu Sans',Arial,sans-serif }
main { max-width:1080px; margin:0 auto; padding:28px 16px 48px }
h1 { font-size:1.6rem; line-height:1.25; margin:0 0 6px }
h2 { font-size:1.05rem; margin:0 0 2px }
p { margin:0 0 12px } .faint, figcaption, footer { color:var(--faint) } footer { font-size:.85rem }
.finding { display:flex; flex-wrap:wrap; gap:12px; margin:20px 0 }
.finding div { flex:1 1 200px; background:var(--card); border:1px solid var(--grid); border-radius:10px; padding:14px 16px }
.finding b { display:block; font-size:1.35rem; line-height:1.3 } .finding span { color:var(--faint); font-size:.9rem }
.charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr)); gap:16px; margin:0 0 20px }
figure { margin:0; background:var(--card); border:1px solid var(--grid); border-radius:10px; padding:16px }
figcaption { font-size:.9rem; margin-bottom:8px } svg { width:100%; height:auto; display:block }
.grid { stroke:var(--grid) } .level { stroke:var(--faint); stroke-dasharray:5 4 } .tick { fill:var(--faint); font-size:13px } .halo { stroke:var(--card); stroke-width:4px; paint-order:stroke }
polyline { fill:none; stroke-width:3; stroke-linejoin:round } polyline.unguarded { stroke:var(--bad) } polyline.guarded { stroke:var(--good) }
circle.unguarded { fill:var(--bad) } circle.guarded { fill:var(--good) }
.key { display:inline-flex; align-items:center; gap:6px; margin-right:16px; color:var(--ink) }
.key::before { content:''; width:18px; height:4px; border-radius:2px; background:var(--bad) } .key.good::before { background:var(--good) }
.scroll { overflow-x:auto; background:var(--card); border:1px solid var(--grid); border-radius:10px; margin-bottom:20px }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums } th,td { padding:8px 12px; text-align:right; border-bottom:1px solid var(--grid); font-size:.92rem }
th { color:var(--faint); font-weight:500; vertical-align:bottom } tbody tr:last-child td { border-bottom:0 } th[colspan] { text-align:center; border-bottom:0 }
code { font-size:.92em; overflow-wrap:anywhere }
";

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
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>ackgate: TCP incast with and without a guard</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>TCP incast, with and without a guard</h1>\n<p \
         class=\"faint\">{}.</p>\n{}<div class=\"charts\">\n{}{}</div>\n<div \
         class=\"scroll\"><table><thead><tr><th></th><th colspan=\"2\">goodput (Mb/s)</th><th colspan=\"2\">rounds with a timeout</th><th \
         colspan=\"2\">slowest rounds (p99, ms)</th></tr><tr>{}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{notes}<footer>Linux {}, \
         {} x {}. Made by <code>ackgate demo</code> {}.</footer>\n</main>\n</body>\n</html>\n",
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
    )
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

/// Text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
        let page = html(&demo());
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
        let mut open: Vec<&str> = Vec::new();
        for tag in page.split('<').skip(2).map(|t| t.split('>').next().unwrap_or_default()) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
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
