//! `ackgate top`: how the guards of this network namespace stand, second by second.

mod page;
mod view;

use std::time::Duration;

use ackgate_linux::status::{ask, guarded};
use anyhow::Context;
use clap::Args;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;

use self::view::View;
use crate::exit::Refused;
use crate::output::{Output, Wait};

/// Time between two questions. Guards count on once a second.
const REFRESH: Duration = Duration::from_millis(500);
/// Questions until two answers differ by a second, at most.
const QUESTIONS: u32 = 6;
/// What every terminal has.
const SMALLEST: Rect = Rect::new(0, 0, 80, 24);

/// Arguments of `ackgate top`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print one page as text and exit.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.once { once() } else { live() }
}

/// Asks every guard.
fn look(view: &mut View) -> anyhow::Result<()> {
    let mut answers = Vec::new();
    for index in guarded().context("could not list the guards of this network namespace")? {
        // A guard that ends just now, and one that does not know this user, say nothing.
        if let Ok(Some(answer)) = ask(index) {
            answers.push(serde_json::from_str(&answer)?);
        }
    }
    view.update(answers);
    Ok(())
}

fn once() -> anyhow::Result<()> {
    let mut view = View::default();
    look(&mut view)?;
    if view.guards().is_empty() {
        return Err(Refused(anyhow::anyhow!(
            "no guard of this network namespace answers this user. Start one with `ackgate run`; if one runs, only root and its user may query it"
        ))
        .into());
    }
    for _ in 0..QUESTIONS {
        if view.has_rates() {
            break;
        }
        std::thread::sleep(REFRESH);
        look(&mut view)?;
    }
    let mut buffer = Buffer::empty(SMALLEST);
    page::draw(&view, SMALLEST, &mut buffer);
    let mut output = Output::new();
    output.write(&text(&buffer), Wait::Briefly);
    output.finish()
}

/// What a page says, without colours and blanks at the ends.
fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let lines =
        area.rows().map(|row| row.columns().map(|cell| buffer[cell.as_position()].symbol()).collect::<String>());
    let lines = lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn live() -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("`ackgate top` needs a terminal; use `--once` without one")?;
    let mut view = View::default();
    let done = loop {
        if let Err(error) = look(&mut view) {
            break Err(error);
        }
        if let Err(error) = terminal.draw(|frame| page::draw(&view, frame.area(), frame.buffer_mut())) {
            break Err(error.into());
        }
        match wait_for_a_key(&mut view) {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore().context("could not restore the terminal")?;
    done
}

/// Until it is time for the next question; says whether to end.
fn wait_for_a_key(view: &mut View) -> anyhow::Result<bool> {
    if !event::poll(REFRESH)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    if key.kind != KeyEventKind::Press {
        return Ok(false);
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
        KeyCode::Down | KeyCode::Char('j') => view.select_next(),
        KeyCode::Up | KeyCode::Char('k') => view.select_previous(),
        _ => {}
    }
    Ok(false)
}
