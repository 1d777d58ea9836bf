//! The service: appends an item every so often, the row first, then its document.

use std::io::{Write, stderr};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use postgres::Client;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::documents::Documents;
use crate::migrate::BATCH;
use crate::releases::{self, Refusal};
use crate::rows::{self, Item};
use crate::settings::Settings;

/// How long to wait before another try, at least, while a database is away.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until TERM or INT. A database that is away is waited for.
pub fn serve(install_dir: &Path) -> Result<()> {
    let settings = &Settings::of_installation(install_dir)?;
    let version = releases::installed(install_dir)?;
    let (stop, stopped) = mpsc::channel();
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    // The receiver is gone only when the program ends anyway.
    thread::spawn(move || signals.forever().next().map(|_| stop.send(())));
    let interval = if settings.interval.is_zero() { PAUSE } else { settings.interval };
    let shape = releases::shape_of(&version)?;
    let mut writer = Writer { settings, shape, search: Documents(settings), client: None, unstored: None };
    tell(&format!("version {version} runs"));
    loop {
        let pause = match writer.append() {
            Ok(()) => interval,
            Err(error) if error.is::<Refusal>() => return Err(error),
            Err(error) => {
                tell(&format!("waiting: {error:#}"));
                interval.max(PAUSE)
            }
        };
        if stopped.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
            break;
        }
    }
    tell(if writer.store().is_ok() { "ends" } else { "ends with a row whose document comes at the next start" });
    Ok(())
}

/// Adds items to both databases, in batches; the shape is the one that the database records.
pub fn seed(install_dir: &Path, items: i64) -> Result<()> {
    let settings = Settings::of_installation(install_dir)?;
    let mut client = settings.connect()?;
    let Some(shape) = rows::recorded_shape(&mut client)? else {
        return Err(Refusal::because("The database holds no content yet; run an installer first."));
    };
    for first in (0..items).step_by(usize::try_from(BATCH)?) {
        let added = rows::insert(&mut client, shape, BATCH.min(items - first))?;
        Documents(&settings).store_all(&format!("{}-items", settings.name), &added)?;
    }
    Ok(())
}

struct Writer<'a> {
    settings: &'a Settings,
    shape: u32,
    search: Documents<'a>,
    client: Option<Client>,
    /// An item whose row is written and whose document is not.
    unstored: Option<Item>,
}

impl Writer<'_> {
    /// Appends one item, or only stores the document that an earlier call could not.
    fn append(&mut self) -> Result<()> {
        if self.unstored.is_none() {
            let mut client = self.client.take().map_or_else(|| self.connect(), Ok)?;
            // An interval of 0 keeps the content still: the service runs and adds nothing.
            if self.unstored.is_none() && !self.settings.interval.is_zero() {
                self.unstored = rows::insert(&mut client, self.shape, 1).context("PostgreSQL did not take an item")?.pop();
            }
            self.client = Some(client);
        }
        self.store()
    }

    /// Connects, makes sure that the content is of this version, and finds a last row without its document.
    fn connect(&mut self) -> Result<Client> {
        let mut client = self.settings.connect()?;
        let (found, wanted) = (rows::recorded_shape(&mut client)?, self.shape);
        if found != Some(wanted) {
            return Err(Refusal::because(format!("The database holds content of shape {found:?}, this version needs {wanted}.")));
        }
        let last = rows::last_id(&mut client)?;
        if last > 0 && self.search.found("GET", &format!("/{}-items/_doc/{last}", self.settings.name))?.is_none() {
            self.unstored = rows::documents(&mut client, wanted, last - 1, 1)?.pop();
        }
        Ok(client)
    }

    /// Stores the document that is still to be stored, if there is one.
    fn store(&mut self) -> Result<()> {
        if let Some(item) = &self.unstored {
            self.search.store(item)?;
            self.unstored = None;
        }
        Ok(())
    }
}

/// A line for the unit's journal.
fn tell(sentence: &str) {
    // The service continues without a journal.
    let _ = writeln!(stderr(), "svc-sample: {sentence}");
}
