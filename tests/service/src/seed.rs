//! Writes many items at once.

use std::path::Path;

use crate::migrate::BATCH;
use crate::refusal::Refusal;
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

/// Adds items to both databases, in batches; the shape is the one that the database records.
///
/// # Errors
/// No configuration, a refusal when the database holds no content, a failed call.
pub fn seed(install_dir: &Path, items: u32) -> anyhow::Result<()> {
    let settings = Settings::of_installation(install_dir)?;
    let search = Search::new(&settings)?;
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
