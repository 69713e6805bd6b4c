//! The report in a real browser, where there is one: every plot drawn, no console error, and nothing wider than a phone.

use std::path::{Path, PathBuf};
use std::process::Command;

use ackgate_papers::experiment::Experiment;
use ackgate_papers::run::{Options, conclude, run};

/// Every kind of panel, names that need escaping, more words than a phone is wide, and all verdicts but one.
const MIXED: &str = r#"
id = "MIXED"
also = ["MIXED-2"]
paper = "hwatch"
figure = "Figure 0"
section = "§0"
title = "A <b>bold</b> & long title that takes more room than there is on a narrow screen, or so it seems"
topology = "  sender ──┐\n           │  switch ══ a port ══► receiver     every link 1 Gb/s, RTT 100 us, and more to the right"
settings = [{ what = "a", source = "§1" }]
chosen = [{ what = "c", why = "d" }]
deviations = ["e"]
seeds = 2
quick = { seeds = 1 }
scenario = { rounds = 2, workload = { volume = "64KB", connections = "fresh" } }
x = { keys = ["senders"], values = "1,4,64", label = "senders", scale = "log2" }
panel = [
    { metric = "goodput_mbps", label = "goodput (Mb/s)", level = 949.0, level_name = "link" },
    { metric = "round_ms_mean", label = "mean completion time (ms)", scale = "log10" },
]
view = [
    { kind = "distribution", of = "flow_ms", label = "FCT (ms)", scale = "log10", x = 64 },
    { kind = "course", of = "bottleneck_mbps", label = "data on the link (Mb/s)", x = 64, bin_ms = 1.0, series = ["none"] },
]
series = [{ name = "none" }, { name = "a <pinned> & fixed window", set = ["scheme=fixed-window"] }]
claim = [
    { id = "1", says = "it collapses at a number of senders that is told here in many words", paper = "b", judge = { kind = "collapse", series = "none", at = 3 } },
    { id = "2", says = "averylongwordthatnobodywouldeverwriteinapaperbutwhichmustnotmakethepagewider", paper = "b", judge = { kind = "at_least", series = "none", x = 64, value = 900 }, note = "n" },
    { id = "3", says = "a", paper = "b", judge = { kind = "untestable", reason = "c" } },
]
"#;

/// One x alone: bars.
const BARS: &str = r#"
id = "BARS"
paper = "pac"
figure = "Figure 0"
section = "§0"
title = "Bars"
topology = "a\nb"
settings = [{ what = "a", source = "§1" }]
seeds = 1
quick = { seeds = 1 }
scenario = { rounds = 2, workload = { volume = "64KB", connections = "fresh" } }
x = { keys = ["senders"], values = "16", label = "senders" }
panel = [{ metric = "goodput_mbps", label = "goodput (Mb/s)" }]
series = [{ name = "none" }, { name = "pinned", set = ["scheme=fixed-window"] }]
claim = [{ id = "1", says = "a", paper = "b", judge = { kind = "untestable", reason = "c" } }]
"#;

/// Measures the report in frames as wide as a phone and a desk, and tells in the page's title.
const GAUGE: &str = r#"<!DOCTYPE html><html><head><meta charset="utf-8"><title>waiting</title></head><body>
<iframe id="phone" src="report.html" style="width:390px;height:800px;border:0"></iframe>
<iframe id="desk" src="report.html" style="width:1200px;height:800px;border:0"></iframe>
<script>
addEventListener("load", () => {
  const told = ["phone", "desk"].map(id => {
    const frame = document.getElementById(id), page = frame.contentDocument, drawn = page.querySelectorAll("figure svg");
    const marks = [...drawn].map(svg => [...svg.querySelectorAll("g polyline, g rect, g circle")]
      .filter(mark => { const box = mark.getBoundingClientRect(); return box.width > 0 || box.height > 0; }).length);
    return `${id}: wider by ${page.documentElement.scrollWidth - page.documentElement.clientWidth}, marks ${marks.join(" ")}`;
  });
  document.title = told.join("; ");
});
</script></body></html>"#;

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// The page as it stands once loaded, and what the browser's console said.
fn load(browser: &Path, folder: &Path, file: &str) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--allow-file-access-from-files", "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join(file).display()))
        .output()
        .expect("the browser starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let console = text(&output.stderr).lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (text(&output.stdout), console)
}

#[test]
fn the_report_opens_from_disk_on_a_phone_and_on_a_desk() {
    let Some(browser) = browser() else {
        eprintln!("no Chromium here: the report was not opened");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = Options { out: folder.path().to_path_buf(), jobs: 1, stop: std::sync::Arc::default() };
    let outcomes: Vec<_> = [MIXED, BARS]
        .into_iter()
        .map(|text| Experiment::parse("mixed.toml", text, false).unwrap_or_else(|error| panic!("{error}")))
        .map(|experiment| run(experiment, &options, |_| ()).expect("it runs"))
        .collect();
    conclude(&outcomes, &options.out, true).expect("files can be written");
    std::fs::write(folder.path().join("gauge.html"), GAUGE).expect("files can be written");

    let (page, console) = load(&browser, folder.path(), "report.html");
    assert_eq!(console, "", "nothing on the console");
    assert!(page.contains("&lt;b&gt;bold&lt;/b&gt;"), "the browser read the page whole");
    let (gauge, console) = load(&browser, folder.path(), "gauge.html");
    assert_eq!(console, "");
    let title = gauge.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).map(|(title, _)| title);
    let title = title.expect("the gauge has a title");
    for part in title.split("; ") {
        let (place, told) = part.split_once(": wider by ").unwrap_or_else(|| panic!("not measured: {title}"));
        let (wider, marks) = told.split_once(", marks ").expect("both are told");
        assert_eq!(wider, "0", "{place} must not scroll sideways");
        let marks: Vec<u32> = marks.split(' ').map(|count| count.parse().expect("a number")).collect();
        // Two curves of the distribution, link and timeouts of the course, two panels of two curves with three points.
        assert!(marks.len() == 2 && marks[0] >= 2 + 1 + 2 * 2 * 4 && marks[1] >= 2, "{place}: {marks:?}");
    }
}
