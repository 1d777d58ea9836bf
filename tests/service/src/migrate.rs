//! Migrates the content of both databases to a version's shape, the relational half first.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::{Result, bail};
use postgres::Client;
use semver::Version;

use crate::documents::Documents;
use crate::plan::Plan;
use crate::rows;
use crate::settings::Settings;
use crate::shapes::{Shape, items_index};

/// How many documents go in one call.
pub const BATCH: i64 = 1000;

/// Carries out a plan. With `fail_half_way` it stops in the middle of the search half, as a broken release does: the relational
/// half is at the new shape, an index is gone, another one half filled, the aliases as before. Each half continues from where it
/// failed when it is called again.
pub fn migrate(settings: &Settings, plan: &Plan, to: &Version, fail_half_way: bool) -> Result<()> {
    let own = crate::releases::shape_of(to)?;
    let (rows_at, documents_at) = match plan {
        Plan::Adopt | Plan::Again => return tell("The content is of this version already; nothing is changed."),
        Plan::Fresh => (0, 0),
        Plan::Upgrade { rows, documents, .. } => (*rows, *documents),
    };
    let mut client = settings.connect()?;
    let mut transaction = client.transaction()?;
    for shape in rows_at + 1..=own {
        transaction.batch_execute(Shape::of(shape)?.migration)?;
    }
    rows::record(&mut transaction, own, to)?;
    transaction.commit()?;
    tell(&format!("PostgreSQL: shape {rows_at} to {own}"))?;
    hold()?;
    let search = Documents(settings);
    if documents_at != own {
        move_documents(&search, &mut client, own, fail_half_way)?;
    }
    search.record(own, &to.to_string())?;
    tell(&format!("search database: shape {documents_at} to {own}"))
}

/// Lets a test look at a migration between its halves, or end it there: where the variable names a file that exists, makes that
/// name with `.reached`, and waits until the file is gone.
fn hold() -> Result<()> {
    let Some(file) = env::var_os("SVC_SAMPLE_HOLD").map(PathBuf::from).filter(|file| file.exists()) else { return Ok(()) };
    fs::write(PathBuf::from(format!("{}.reached", file.display())), "")?;
    while file.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// New indices and fields, the items' documents again from their rows, then aliases, then what is no longer wanted.
fn move_documents(search: &Documents<'_>, client: &mut Client, own: u32, fail: bool) -> Result<()> {
    let name = &search.0.name;
    Shape::of(own)?.indices(name)?.iter().try_for_each(|(name, index)| search.prepare(name, index))?;
    let items = items_index(name, own);
    if fail {
        search.delete(&format!("{name}-legacy"))?;
        let half = rows::last_id(client)? / 2;
        search.store_all(&items, &rows::documents(client, own, 0, half.min(BATCH))?)?;
        bail!("the migration of the search database failed half-way: the index {items} is not complete");
    }
    let mut above = 0;
    loop {
        let batch = rows::documents(client, own, above, BATCH)?;
        let Some((last, _)) = batch.last() else { break };
        above = *last;
        search.store_all(&items, &batch)?;
    }
    search.finish(own)
}

fn tell(sentence: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{sentence}")?)
}
