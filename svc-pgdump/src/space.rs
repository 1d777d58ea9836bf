//! Whether the disk has space for a dump, as far as that can be known before.

use std::fs::Metadata;
use std::path::Path;

use postgres::Client;
use svc_step::reporter::bytes;
use svc_step::{Call, Failure, file};

use crate::compression::Compression;
use crate::pg;

/// A compressed dump takes about this part of a plain one; it was a sixth (seen).
const COMPRESSED: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) bytes: u64,
    /// Of the last dump, not of the size of the tables.
    pub(crate) from_last: bool,
}

/// The size of the last dump of that name, at the path or in a directory beside that of the path (every restore point is a
/// directory of its own); else that of the tables without their indexes, or a part of it if the dump is to be compressed.
pub(crate) fn estimate(client: &mut Client, path: &Path, compression: Option<Compression>) -> Result<Estimate, Failure> {
    if let Some(bytes) = last(path) {
        return Ok(Estimate { bytes, from_last: true });
    }
    // From the catalogue alone: asking for the size of a table waits for whoever has locked it.
    let sql = "SELECT (COALESCE(sum(c.relpages::int8 + COALESCE(t.relpages, 0)), 0) * pg_catalog.current_setting('block_size')::int8)::int8 \
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               LEFT JOIN pg_catalog.pg_class t ON t.oid = c.reltoastrelid AND c.reltoastrelid <> 0 \
               WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'";
    let row = client.query_one(sql, &[]);
    let bytes: i64 =
        row.and_then(|row| row.try_get(0)).map_err(|error| pg::of_query(&error, "ask for the size of the tables"))?;
    let plain = u64::try_from(bytes).unwrap_or_default();
    Ok(Estimate { bytes: if compression.is_some() { plain / COMPRESSED } else { plain }, from_last: false })
}

fn last(path: &Path) -> Option<u64> {
    let newest_beside = || {
        let (folder, name) = (path.parent()?, path.file_name()?);
        let folders = std::fs::read_dir(folder.parent()?).ok()?.flatten();
        let dumps =
            folders.filter_map(|folder| std::fs::symlink_metadata(folder.path().join(name)).ok().filter(Metadata::is_file));
        dumps.max_by_key(|meta| meta.modified().ok())
    };
    let own = std::fs::metadata(path).ok().filter(Metadata::is_file);
    own.or_else(newest_beside).map(|meta| meta.len())
}

/// Warns if the disk has less space than the estimate, which is no more than that: a dump's size was between 0.63 and 4.6 times the
/// database's (seen), and tables may be mostly empty pages. A dump that runs out of disk space leaves nothing; `svc-point space`
/// refuses before.
pub(crate) fn check(call: &Call, path: &Path, estimate: Estimate) {
    let folder = file::folder_of(path);
    let Some(free) = file::free_bytes(folder).filter(|free| *free < estimate.bytes) else { return };
    let source = if estimate.from_last { "the last dump took" } else { "a dump of the tables takes about" };
    let message = format!("{} has {} free, and {source} {}.", folder.display(), bytes(free), bytes(estimate.bytes));
    call.warn("out_of_space", message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn last_dump_is_at_path_or_newest_in_sibling_folders() {
        let dir = tempfile::tempdir().unwrap();
        let dump = |folder: &str| dir.path().join(folder).join("svc_db.backup.sql");
        for (folder, size, day) in [("one", 10, 1), ("three", 30, 3), ("two", 20, 2), ("now", 0, 0)] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            if size > 0 {
                fs::write(dump(folder), vec![0; size]).unwrap();
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400);
                fs::File::options().write(true).open(dump(folder)).unwrap().set_modified(time).unwrap();
            }
        }
        fs::write(dir.path().join("three/other.sql"), vec![0; 99]).unwrap();
        assert_eq!(last(&dump("now")), Some(30));
        assert_eq!(last(&dump("one")), Some(10));
        assert_eq!(last(&dir.path().join("now/nothing.sql")), None);
    }
}
