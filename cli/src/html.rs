//! What the pages that commands write have in common: one file each, no script, nothing fetched.

/// How pages look, in light and dark.
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
rect.lost { fill:var(--bad) } rect.mean { fill:var(--good) } td:first-child.name, th:first-child.name { text-align:left }
code { font-size:.92em; overflow-wrap:anywhere }
";

/// A page of this title and body.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Whether a page needs nothing else and closes what it opens: for tests.
#[cfg(test)]
pub(crate) fn stands_alone(page: &str) -> Result<(), String> {
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        if page.contains(outside) {
            return Err(format!("it has {outside}"));
        }
    }
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(2).map(|tag| tag.split('>').next().unwrap_or_default()) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(format!("{tag} closes nothing"));
            }
        } else if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
}
