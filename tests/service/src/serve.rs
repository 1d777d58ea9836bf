//! The service: appends an item every so often, the row first, then its document.

use std::io::{Read, Write, stderr};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
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

use crate::migrate::BATCH;
use crate::releases::{self, Refusal, Shape};
use crate::rows::Item;
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

/// How long to wait before another try, at least, while a database is away.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until TERM or INT. A database that is away is waited for.
pub fn serve(install_dir: &Path) -> anyhow::Result<()> {
    let settings = Settings::of_installation(install_dir)?;
    let Some(version) = releases::installed(install_dir)? else {
        return Err(Refusal::because(format!("There is no version marker in {}.", install_dir.display())));
    };
    let stop = stop_signal()?;
    let ready = Arc::new(AtomicBool::new(false));
    listen(settings.ready_port, Arc::clone(&ready))?;
    let interval = if settings.interval.is_zero() { PAUSE } else { settings.interval };
    let (search, shape) = (Search::new(&settings), releases::shape_of(&version)?);
    let mut writer = Writer { settings, shape, search, client: None, unstored: None };
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
                interval.max(PAUSE)
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

/// Adds items to both databases, in batches; the shape is the one that the database records.
pub fn seed(install_dir: &Path, items: u32) -> anyhow::Result<()> {
    let settings = Settings::of_installation(install_dir)?;
    let search = Search::new(&settings);
    let mut client = rows::connect(&settings)?;
    let Some(shape) = rows::recorded_shape(&mut client)? else {
        return Err(Refusal::because("The database holds no content yet; run an installer first."));
    };
    let mut left = i64::from(items);
    while left > 0 {
        let batch = left.min(BATCH);
        let first = rows::insert(&mut client, shape, i32::try_from(batch)?)?;
        let items = rows::documents(&mut client, shape, first - 1, batch)?;
        documents::store_all(&search, &format!("{}-items", settings.name), &items)?;
        left -= batch;
    }
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

/// Answers 200 on a port of the loopback address while the last item could be stored in both databases, else 503; 0 is no port.
fn listen(port: u16, ready: Arc<AtomicBool>) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("cannot listen on the ready port {port}"))?;
    let answer = |mut stream: TcpStream, ready: bool| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let _ = stream.read(&mut [0; 1024])?;
        let status = if ready { "200 OK" } else { "503 Service Unavailable" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away needs no answer.
            let _ = answer(stream, ready.load(Ordering::Relaxed));
        }
    });
    Ok(())
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
        if self.unstored.is_none() {
            let mut client = self.client.take().map_or_else(|| self.connect(), Ok)?;
            // An interval of 0 keeps the content still: the service runs and adds nothing.
            if self.unstored.is_none() && !self.settings.interval.is_zero() {
                let id = rows::insert(&mut client, self.shape, 1).context("PostgreSQL did not take an item")?;
                self.unstored = rows::documents(&mut client, self.shape, id - 1, 1)?.pop();
            }
            self.client = Some(client);
        }
        self.finish()
    }

    /// Connects, makes sure that the content is of this version, and finds a last row without its document.
    fn connect(&mut self) -> anyhow::Result<Client> {
        let mut client = rows::connect(&self.settings)?;
        let (found, wanted) = (rows::recorded_shape(&mut client)?, self.shape);
        if found != Some(wanted) {
            return Err(Refusal::because(format!("The database holds content of shape {found:?}, this version needs {wanted}.")));
        }
        let last = rows::last_id(&mut client)?;
        if last > 0 && self.search.found("GET", &format!("/{}-items/_doc/{last}", self.settings.name))?.is_none() {
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
    // The service continues without a journal.
    let _ = writeln!(stderr(), "svc-sample: {sentence}");
}
