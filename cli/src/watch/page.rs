//! The report of a watch as a page (`--html`): what was found in one sentence, three plots over time, and tables.

use std::fmt::Write;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ackgate_control::units::Span;
use ackgate_linux::watch::report::{Report, Sums};

use anyhow::Context;

use super::course::Course;
use crate::demo::chart::step;
use crate::exit::Refused;
use crate::html::{document, escape};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 42.0;

/// What a page is made of.
pub(super) struct Paper {
    path: PathBuf,
    file: File,
    place: Place,
    pub(super) course: Course,
    html: String,
}

impl Paper {
    /// # Errors
    /// When there can be no such file.
    pub(super) fn new(path: &Path, width: Span) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display())).map_err(Refused)?;
        let place = Place { name: String::new(), rate_mbps: None, bin_us: width.0 / 1000 };
        Ok(Self { path: path.to_owned(), file, place, course: Course::new(width), html: String::new() })
    }

    pub(super) fn begin(&mut self, name: &str, rate_mbps: Option<u64>) {
        self.place = Place { name: name.to_owned(), rate_mbps, bin_us: self.place.bin_us };
    }

    pub(super) fn end(&mut self, report: &Report) {
        self.html = html(&self.place, report, &self.course);
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.file.write_all(self.html.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What was watched.
struct Place {
    /// Interface, or the receiver of a capture.
    name: String,
    rate_mbps: Option<u64>,
    /// Width of a bin, us.
    bin_us: u64,
}

/// One plot.
struct Plot<'a> {
    label: &'a str,
    /// Curves, and how each is drawn.
    curves: &'a [(&'a str, Vec<f64>)],
    /// Values that stand as bars, and what each counts.
    bars: Option<Vec<(f64, String)>>,
    /// A dashed line with a name.
    level: Option<(String, f64)>,
    /// From left to right, s.
    seconds: f64,
}

impl Plot<'_> {
    fn svg(&self) -> String {
        let bars = self.bars.iter().flatten().map(|(value, _)| *value);
        let values = self.curves.iter().flat_map(|(_, values)| values.iter().copied()).chain(bars);
        let highest = values.chain(self.level.iter().map(|level| level.1)).fold(1.0, f64::max);
        let distance = step(highest);
        let top = (highest / distance).ceil() * distance;
        let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top);
        let right = WIDTH - RIGHT;
        let mut out =
            format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n", escape(self.label));
        let mut put = |element: String| writeln!(out, "{element}").expect("text takes text");
        for tick in ticks(top, distance) {
            let at = y(tick);
            put(format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"));
            let x = LEFT - 8.0;
            put(format!(
                "<text class=\"tick\" x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                at + 4.5,
                short(tick)
            ));
        }
        let room = right - LEFT;
        for tick in ticks(self.seconds, step(self.seconds)) {
            let x = LEFT + room * tick / self.seconds.max(1e-9);
            let under = HEIGHT - BOTTOM + 18.0;
            put(format!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{under}\" text-anchor=\"middle\">{}</text>",
                short(tick)
            ));
        }
        let (middle, low) = (LEFT + room / 2.0, HEIGHT - 6.0);
        put(format!("<text class=\"tick\" x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">seconds</text>"));
        if let Some(bars) = &self.bars {
            let width = room / bars.len().max(1) as f64;
            for (i, (value, what)) in bars.iter().enumerate().filter(|(_, (value, _))| *value > 0.0) {
                let (x, at, least) = (LEFT + width * i as f64, y(*value), width.max(2.0));
                let height = (HEIGHT - BOTTOM - at).max(1.0);
                let what = escape(what);
                put(format!(
                    "<rect class=\"lost\" x=\"{x:.1}\" y=\"{at:.1}\" width=\"{least:.1}\" \
                     height=\"{height:.1}\"><title>{what}</title></rect>"
                ));
            }
        }
        for (class, values) in self.curves {
            let x = |i: usize| LEFT + room * (i as f64 + 0.5) / values.len().max(1) as f64;
            let line: Vec<String> =
                values.iter().enumerate().map(|(i, &v)| format!("{:.1},{:.1}", x(i), y(v))).collect();
            put(format!("<polyline class=\"{class}\" style=\"stroke-width:1.5\" points=\"{}\"/>", line.join(" ")));
        }
        if let Some((name, value)) = &self.level {
            let at = y(*value);
            put(format!("<line class=\"level\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"));
            let (above, name) = (at - 4.0, escape(name));
            put(format!("<text class=\"tick halo\" x=\"{right}\" y=\"{above:.1}\" text-anchor=\"end\">{name}</text>"));
        }
        out + "</svg>\n"
    }
}

/// Round numbers from 0 to `most`.
fn ticks(most: f64, distance: f64) -> impl Iterator<Item = f64> {
    (0..=20).map(move |i| f64::from(i) * distance).take_while(move |tick| *tick <= most + distance / 1000.0)
}

/// Without what rounding leaves behind the point.
fn short(tick: f64) -> String {
    let text = format!("{tick:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A table: heads, the first of which stands left, and rows.
fn table(title: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells = |tag: &str, row: Vec<String>| -> String {
        let first = |i| if i == 0 { " class=\"name\"" } else { "" };
        row.iter().enumerate().map(|(i, cell)| format!("<{tag}{}>{}</{tag}>", first(i), escape(cell))).collect()
    };
    let head = cells("th", heads.iter().map(|&head| head.to_owned()).collect());
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row.clone()))).collect();
    format!(
        "<h2>{title}</h2>\n<div class=\"scroll\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
}

fn tables(report: &Report) -> String {
    let bursts: Vec<Vec<String>> = report
        .worst
        .iter()
        .map(|burst| {
            vec![
                format!("{:.3} s", burst.start_s),
                format!("{:.1}", burst.length_ms),
                burst.peak_senders.to_string(),
                format!("{:.0}", burst.peak_mbps),
                burst.bytes.to_string(),
                burst.marked.to_string(),
                burst.retransmitted_bytes.to_string(),
                burst.stalls.to_string(),
            ]
        })
        .collect();
    let peers: Vec<Vec<String>> = report
        .peers
        .iter()
        .map(|peer| {
            vec![
                peer.address.to_string(),
                peer.connections.to_string(),
                peer.bytes.to_string(),
                peer.retransmitted_bytes.to_string(),
                peer.stalls.to_string(),
            ]
        })
        .collect();
    let services: Vec<Vec<String>> = report
        .services
        .iter()
        .map(|service| {
            let whose = if service.remote { "of the senders" } else { "of the receiver" };
            vec![format!("{} {whose}", service.port), service.connections.to_string(), service.bytes.to_string()]
        })
        .collect();
    let heads = ["began at", "length, ms", "peak senders", "peak, Mb/s", "bytes", "CE marks", "bytes lost", "stalls"];
    table("The worst bursts", &heads, &bursts)
        + &table("The hosts that sent most", &["sender", "connections", "bytes", "bytes lost", "stalls"], &peers)
        + &table("Their services", &["port", "connections", "bytes"], &services)
}

/// The page.
fn html(place: &Place, report: &Report, course: &Course) -> String {
    let (slices, slice_s) = (course.slices(), course.slice_s());
    let seconds = slices.len() as f64 * slice_s;
    let curve = |of: &dyn Fn(&Sums) -> f64| -> Vec<f64> { slices.iter().map(of).collect() };
    let level = place.rate_mbps.map(|rate| (format!("link, {rate} Mb/s"), rate as f64));
    let traffic = Plot {
        label: "What arrived, Mb/s over time",
        curves: &[
            ("unguarded", curve(&|sums| sums.peak_mbps)),
            ("guarded", curve(&|sums| sums.bytes as f64 * 8e-6 / slice_s)),
        ],
        bars: None,
        level,
        seconds,
    };
    let senders = Plot {
        label: "Senders at once over time",
        curves: &[("guarded", curve(&|sums| sums.peak_senders as f64))],
        bars: None,
        level: None,
        seconds,
    };
    let lost = |sums: &Sums| {
        let Sums { retransmitted_bytes: bytes, stalls, .. } = sums;
        (*bytes as f64 / 1000.0, format!("{bytes} bytes lost, {stalls} stalls"))
    };
    let losses = Plot {
        label: "Bytes that were lost and sent again, kB over time",
        curves: &[],
        bars: Some(slices.iter().map(lost).collect()),
        level: None,
        seconds,
    };
    let figure = |title: &str, caption: String, plot: &Plot<'_>| {
        format!("<figure><h2>{title}</h2><figcaption>{caption}</figcaption>\n{}</figure>\n<br>\n", plot.svg())
    };
    let width =
        if place.bin_us < 1000 { format!("{} us", place.bin_us) } else { format!("{} ms", place.bin_us as f64 / 1e3) };
    let card = |value: String, what: String| format!("<div><b>{value}</b><span>{what}</span></div>\n");
    let Report { sums, bursts, lossy_bursts, .. } = report;
    let body = format!(
        "<h1>{}</h1>\n<p class=\"faint\">{}, watched for {:.1} s. Nothing was changed.</p>\n<div class=\"finding\">\n{}{}{}</div>\n\
         {}{}{}{}<footer>What these figures mean, and where they can be wrong: docs/watching.md. Made by <code>ackgate watch</code> \
         {}.</footer>\n",
        escape(&upper(&report.advice)),
        escape(&place.name),
        report.seconds,
        card(format!("{lossy_bursts} of {bursts} bursts"), "lost something".into()),
        card(format!("{} senders", sums.peak_senders), format!("at most at once, within {width}")),
        card(format!("{} stalls", sums.stalls), "of senders, as by a retransmission timeout".into()),
        figure(
            "What arrived (Mb/s)",
            format!(
                "<span class=\"key\">the fullest {width} of each point</span><span class=\"key good\">mean; a point is {} s</span>",
                short(slice_s)
            ),
            &traffic
        ),
        figure(
            "Senders at once",
            format!("Connections on which data arrived within {width}; the most of each point."),
            &senders
        ),
        figure(
            "Lost and sent again (kB)",
            format!(
                "In all {} bytes; {} more were only overtaken on their way.",
                sums.retransmitted_bytes, sums.out_of_order_bytes
            ),
            &losses
        ),
        tables(report),
        env!("CARGO_PKG_VERSION"),
    );
    document(&format!("ackgate watch: {}", place.name), &body)
}

/// As a sentence begins and ends.
fn upper(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use ackgate_linux::watch::Bin;
    use ackgate_linux::watch::report::Reporter;

    use super::*;
    use crate::html::stands_alone;

    fn page(bins: &[Bin]) -> String {
        let (mut reporter, mut course) = (Reporter::new(Span::millis(1), Some(100)), Course::new(Span::millis(1)));
        for bin in bins {
            let _ = reporter.push(bin);
            course.push(bin);
        }
        let place = Place { name: "eth<0>".into(), rate_mbps: Some(100), bin_us: 1000 };
        html(&place, &reporter.finish(&[], "eth0"), &course)
    }

    #[test]
    fn it_stands_alone_and_says_what_was_found() {
        let full = Bin { bytes: 12_500, senders: 64, ..Bin::default() };
        let mut bins: Vec<Bin> = (0..10).map(|number| Bin { number, ..full }).collect();
        bins.extend((10..40).map(|number| Bin { number, ..Bin::default() }));
        bins[9].retransmitted_bytes = 5000;
        bins[9].stalls = 3;
        let page = page(&bins);
        stands_alone(&page).unwrap();
        assert!(page.contains("<h1>This is incast, and a guard would help") && page.contains("eth&lt;0&gt;"), "{page}");
        assert!(
            page.contains("<b>1 of 1 bursts</b>")
                && page.contains("<b>64 senders</b>")
                && page.contains("<b>3 stalls</b>")
        );
        assert!(page.contains("5000 bytes lost, 3 stalls") && page.contains("link, 100 Mb/s"), "{page}");
        assert_eq!((page.matches("<polyline").count(), page.matches("<rect").count()), (3, 1));
    }

    #[test]
    fn where_nothing_arrived_it_is_drawn_without_nonsense() {
        for bins in [0, 1, 2000] {
            let bins: Vec<Bin> = (0..bins).map(|number| Bin { number, ..Bin::default() }).collect();
            let page = page(&bins);
            stands_alone(&page).unwrap();
            assert!(!page.contains("NaN") && !page.contains("inf,") && page.contains("nothing arrived"), "{page}");
        }
    }
}
