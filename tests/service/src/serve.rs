//! The service: appends an item every so often, the row first, then its document.

use std::io::{Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use postgres::Client;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::item::Item;
use crate::refusal::Refusal;
use crate::releases::{self, Shape};
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, ready, rows};

/// How long to wait before another try, at least, while a database is away.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs until TERM or INT. A database that is away is waited for.
///
/// # Errors
/// No configuration, a refusal without a marker or with content of another version, a ready port that is taken.
pub fn serve(install_dir: &Path) -> anyhow::Result<()> {
    let settings = Settings::of_installation(install_dir)?;
    let Some(version) = releases::installed(install_dir)? else {
        return Err(Refusal::because(format!("There is no version marker in {}.", install_dir.display())));
    };
    let stop = stop_signal()?;
    let ready = Arc::new(AtomicBool::new(false));
    ready::listen(settings.ready_port, Arc::clone(&ready))?;
    let search = Search::new(&settings)?;
    let interval = if settings.interval.is_zero() { PATIENCE } else { settings.interval };
    let mut writer = Writer { settings, shape: releases::shape_of(&version)?, search, client: None, unstored: None };
    let mut complaint = None;
    tell(&format!("version {version} runs"));
    loop {
        let outcome = writer.append();
        ready.store(outcome.is_ok(), Ordering::Relaxed);
        let pause = match outcome {
            Ok(()) => {
                if complaint.take().is_some() {
                    tell("both databases are there again");
                }
                interval
            }
            Err(error) if error.is::<Refusal>() => return Err(error),
            Err(error) => {
                let sentence = format!("waiting: {error:#}");
                if complaint.as_ref() != Some(&sentence) {
                    tell(&sentence);
                }
                complaint = Some(sentence);
                interval.max(PATIENCE)
            }
        };
        if stop.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
            break;
        }
    }
    let last = writer.finish();
    tell(if last.is_ok() { "ends" } else { "ends with a row whose document comes at the next start" });
    Ok(())
}

/// A channel on which TERM or INT arrives.
fn stop_signal() -> anyhow::Result<Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The receiver is gone only when the program ends anyway.
            let _ = sender.send(());
        }
    });
    Ok(receiver)
}

struct Writer {
    settings: Settings,
    shape: Shape,
    search: Search,
    client: Option<Client>,
    /// An item whose row is written and whose document is not.
    unstored: Option<Item>,
}

impl Writer {
    /// Appends one item, or only stores the document that an earlier call could not.
    fn append(&mut self) -> anyhow::Result<()> {
        if self.unstored.is_some() {
            return self.finish();
        }
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect()?,
        };
        // An interval of 0 keeps the content still: the service runs and adds nothing.
        if self.unstored.is_none() && !self.settings.interval.is_zero() {
            let id = rows::insert(&mut client, self.shape, 1).context("the relational database did not take an item")?;
            self.unstored = rows::documents(&mut client, self.shape, id - 1, 1)?.pop();
        }
        self.client = Some(client);
        self.finish()
    }

    /// Connects, makes sure that the content is of this version, and finds a last row without its document.
    fn connect(&mut self) -> anyhow::Result<Client> {
        let mut client = rows::connect(&self.settings)?;
        let found = rows::recorded_shape(&mut client)?;
        if found != Some(self.shape) {
            return Err(Refusal::because(format!(
                "The database holds content of shape {found:?}, this version needs {}.",
                self.shape
            )));
        }
        let last = rows::last_id(&mut client)?;
        if last > 0 && !documents::is_stored(&self.search, &self.settings.name, last)? {
            self.unstored = rows::documents(&mut client, self.shape, last - 1, 1)?.pop();
        }
        Ok(client)
    }

    /// Stores the document that is still to be stored, if there is one.
    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(item) = &self.unstored {
            documents::store(&self.search, &self.settings.name, item)?;
            self.unstored = None;
        }
        Ok(())
    }
}

/// A line for the unit's journal.
fn tell(sentence: &str) {
    // The service goes on without a journal.
    let _ = writeln!(stderr(), "svc-sample: {sentence}");
}
