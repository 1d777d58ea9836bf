//! Migrates the content of both databases to a version's shape, the relational half first.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::bail;
use postgres::Client;
use semver::Version;

use crate::plan::Plan;
use crate::releases::{self, Shape};
use crate::search::Search;
use crate::settings::Settings;
use crate::shapes::indices;
use crate::{documents, rows};

/// How many documents go in one call.
pub const BATCH: i64 = 1000;

/// Carries out a plan. With `fail_half_way` it stops in the middle of the search half, as a broken release does: the relational
/// half is at the new shape, an index is gone, another one half filled, the aliases as before. Each half continues from where it
/// failed when it is called again.
pub fn migrate(settings: &Settings, plan: &Plan, to: &Version, fail_half_way: bool) -> anyhow::Result<()> {
    let own = releases::shape_of(to)?;
    let (rows_at, documents_at) = match plan {
        Plan::Adopt | Plan::Again => return tell("The content is of this version already; nothing is changed."),
        Plan::Fresh => (0, 0),
        Plan::Upgrade { rows, documents, .. } => (*rows, *documents),
    };
    let mut client = rows::connect(settings)?;
    let mut transaction = client.transaction()?;
    for shape in rows_at + 1..=own {
        transaction.batch_execute(rows::shape(shape)?.migration)?;
    }
    rows::record(&mut transaction, own, to)?;
    transaction.commit()?;
    tell(&format!("PostgreSQL: shape {rows_at} to {own}"))?;
    hold()?;
    let search = Search::new(settings);
    if documents_at != own {
        move_documents(&search, &settings.name, &mut client, own, fail_half_way)?;
    }
    documents::record(&search, &settings.name, own, &to.to_string())?;
    tell(&format!("search database: shape {documents_at} to {own}"))
}

/// Lets a test look at a migration between its halves, or end it there: where the variable names a file that exists, makes that
/// name with `.reached`, and waits until the file is gone.
fn hold() -> anyhow::Result<()> {
    let Some(file) = env::var_os("SVC_SAMPLE_HOLD").map(PathBuf::from).filter(|file| file.exists()) else { return Ok(()) };
    fs::write(PathBuf::from(format!("{}.reached", file.display())), "")?;
    while file.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// New indices and fields, the items' documents again from their rows, then aliases, then what is no longer wanted.
fn move_documents(search: &Search, name: &str, client: &mut Client, own: Shape, fail: bool) -> anyhow::Result<()> {
    indices::wanted(name, own).iter().try_for_each(|index| documents::prepare(search, index))?;
    let items = indices::items_index(name, own);
    if fail {
        documents::delete(search, &format!("{name}-legacy"))?;
        let half = rows::last_id(client)? / 2;
        documents::store_all(search, &items, &rows::documents(client, own, 0, half.min(BATCH))?)?;
        bail!("the migration of the search database failed half-way: the index {items} is not complete");
    }
    let mut above = 0;
    loop {
        let batch = rows::documents(client, own, above, BATCH)?;
        let Some(last) = batch.last() else { break };
        above = last.id;
        documents::store_all(search, &items, &batch)?;
    }
    documents::set_aliases(search, name, own)?;
    documents::delete_others(search, name, own)
}

fn tell(sentence: &str) -> anyhow::Result<()> {
    Ok(writeln!(stdout(), "{sentence}")?)
}
