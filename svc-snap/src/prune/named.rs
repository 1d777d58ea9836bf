//! `--keep-from`: snapshots that files name, which are never deleted: documents of svc-snap or svc-backup, and restore points (the
//! folder, or one of its files).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use svc_step::Failure;
use svc_step::file;

/// A file of documents is not larger.
const LARGEST: u64 = 256 * 1024 * 1024;
/// The document of a restore point that names its snapshot.
const OF_POINT: &str = "snapshot.json";
/// Where a document of svc-snap has the name or uuid: `snapshot` is an object in some steps and the name in others.
const PLACES: [&str; 6] = [
    "/result/snapshot",
    "/result/snapshot_uuid",
    "/result/snapshot/name",
    "/result/snapshot/uuid",
    "/result/swap/snapshot_uuid",
    "/result/name",
];

/// The names and uuids in the files, read before anything is locked or connected. The name is enough, whatever cluster and repository
/// a file speaks of: a repository may have been registered again under another name.
///
/// # Errors
/// A file cannot be read, is no document, or names no snapshot (2).
pub(crate) fn named(files: &[PathBuf]) -> Result<BTreeSet<String>, Failure> {
    let mut all = BTreeSet::new();
    for path in files {
        let found = read(path, true).map_err(|why| {
            let message = format!("The --keep-from file {} names no snapshot, so nothing is deleted: {why}.", path.display());
            Failure::usage("keep_from_unreadable", message)
                .hint("Name documents of svc-snap (create, show, …), of svc-backup, or restore points by their folder.")
        })?;
        all.extend(found);
    }
    Ok(all)
}

/// Reads a file; `leads`: whether it may lead to the file of a restore point, which names its snapshot itself.
fn read(path: &Path, leads: bool) -> Result<BTreeSet<String>, String> {
    if path.is_dir() {
        return read(&path.join(OF_POINT), leads);
    }
    let text = file::read_text("read what is to be kept", path, LARGEST).map_err(|failure| failure.message)?;
    let mut found = BTreeSet::new();
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let document = document.map_err(|error| error.to_string())?;
        let says = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
        let schema = says("/schema").unwrap_or_default();
        if schema.starts_with("svc-snap.") {
            found.extend(PLACES.iter().filter_map(|place| says(place)).map(str::to_owned));
        } else if schema.starts_with("svc-restore-point/") && leads {
            found.extend(read(&file::folder_of(path).join(OF_POINT), false)?);
        } else if let Some(point) = says("/result/restore_point").filter(|_| leads) {
            found.extend(read(&beside(path, Path::new(point)), false)?);
        }
    }
    if found.is_empty() { Err("it is no document of a snapshot".to_owned()) } else { Ok(found) }
}

/// A restore point that was moved lies where its document was moved to.
fn beside(path: &Path, point: &Path) -> PathBuf {
    let moved = point.file_name().map(|name| file::folder_of(path).join(name)).filter(|moved| moved.is_dir());
    if point.exists() { point.to_owned() } else { moved.unwrap_or_else(|| point.to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn documents_of_every_step_and_restore_points_name_their_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            fs::write(at(name), text).unwrap();
            at(name)
        };
        let doc = |schema: &str, result: &Value| json!({"schema": schema, "ok": true, "result": result}).to_string();
        let created = doc("svc-snap.create/1", &json!({"repository": "r", "name": "a", "snapshot": {"name": "a", "uuid": "ua"}}));
        let staged = doc("svc-snap.stage/1", &json!({"repository": "r", "snapshot": "c", "snapshot_uuid": "uc"}));
        fs::create_dir(at("point")).unwrap();
        write("point/snapshot.json", &created);
        let manifest = write("point/restore-point.json", r#"{"schema":"svc-restore-point/1","id":"point"}"#);
        let moved = write("backup.json", &doc("svc-backup.run/1", &json!({"restore_point": "/gone/point"})));
        let names = |files: &[PathBuf]| named(files).map(|named| named.into_iter().collect::<Vec<_>>());
        for from in [at("point"), manifest, moved, write("one", &created)] {
            assert_eq!(names(&[from]).unwrap(), ["a", "ua"]);
        }
        assert_eq!(names(&[write("two", &format!("{created}\n{staged}"))]).unwrap(), ["a", "c", "ua", "uc"]);
        assert!(names(&[]).unwrap().is_empty());
        let good = write("good", &created);
        for (name, text) in [
            ("empty", ""),
            ("half", created.trim_end_matches('}')),
            ("other", "{}"),
            ("dump", &doc("svc-pgdump.dump/1", &json!({"name": "a", "repository": "x"}))),
            ("snapshot.json", r#"{"schema":"svc-restore-point/1"}"#),
            ("none", &doc("svc-backup.run/1", &json!({"restore_point": "/gone"}))),
        ] {
            let failure = names(&[good.clone(), write(name, text)]).unwrap_err();
            assert_eq!((failure.code.as_str(), failure.status.code()), ("keep_from_unreadable", 2), "{name}");
        }
    }
}
