//! `--keep-from`: snapshots that files name, which are never deleted: documents of svc-snap (`create`, `show`, `wait`, `stage`,
//! `restore`, …), a script's document, and restore points (the folder, or one of its files).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use svc_step::Failure;
use svc_step::file;

/// A file of documents is not larger.
const LARGEST: u64 = 256 * 1024 * 1024;
/// The document of a restore point that names its snapshot.
const OF_POINT: &str = "snapshot.json";

/// What files name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Named(BTreeSet<String>);

impl Named {
    /// Whether a snapshot of that name or `uuid` is named. The name is enough, whatever cluster and repository a file speaks
    /// of: a repository may have been registered anew under another name, on a rebuilt server.
    pub(crate) fn names(&self, name: &str, uuid: &str) -> bool {
        self.0.contains(name) || self.0.contains(uuid)
    }

    /// Reads the files, before anything is locked or connected.
    ///
    /// # Errors
    /// One cannot be read, is no document, or names no snapshot (2).
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut named = Self::default();
        for path in files {
            let found = read(path, Leads::On)?;
            if found.is_empty() {
                return Err(bad("keep_from_names_none", format!("The --keep-from file {} names no snapshot.", path.display()))
                    .hint("Hand over documents of svc-snap (create, show, …), of svc-backup, or restore points."));
            }
            named.0.extend(found);
        }
        Ok(named)
    }
}

/// Whether a document may lead to another one. That one names its snapshots itself, or two could lead to each other for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    On,
    NoFurther,
}

fn read(path: &Path, leads: Leads) -> Result<BTreeSet<String>, Failure> {
    if path.is_dir() {
        return read(&path.join(OF_POINT), leads);
    }
    let text = file::read_text("read what is to be kept", path, LARGEST).map_err(|failure| unreadable(path, failure))?;
    let mut found = BTreeSet::new();
    let mut count = 0;
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let document = document.map_err(|error| damaged(path, &error.to_string()))?;
        let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
        // A restore point's manifest and a script's document name no snapshot themselves: it stands in the restore point.
        let next = if schema.starts_with("svc-restore-point/") {
            Some(file::folder_of(path).join(OF_POINT))
        } else {
            document.pointer("/result/restore_point").and_then(Value::as_str).map(|point| beside(path, Path::new(point)))
        };
        if let Some(next) = next {
            if leads == Leads::NoFurther {
                return Err(damaged(path, "it names no snapshot itself, and another document leads to it"));
            }
            found.extend(read(&next, Leads::NoFurther)?);
        } else if schema.is_empty() {
            return Err(damaged(path, "it bears no schema"));
        } else {
            found.extend(snapshots(&document));
        }
        count += 1;
    }
    if count == 0 { Err(damaged(path, "it is empty")) } else { Ok(found) }
}

/// A restore point that was moved lies where its document was moved to.
fn beside(path: &Path, point: &Path) -> PathBuf {
    let moved = point.file_name().map(|name| file::folder_of(path).join(name)).filter(|moved| moved.is_dir());
    if point.exists() { point.to_owned() } else { moved.unwrap_or_else(|| point.to_owned()) }
}

/// The names and uuids in a document of svc-snap: `snapshot` is an object in some steps and the name in others.
fn snapshots(document: &Value) -> impl Iterator<Item = String> {
    let at = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let is_ours = document.get("schema").and_then(Value::as_str).is_some_and(|schema| schema.starts_with("svc-snap."));
    let backup = at("/result/name").filter(|_| document.pointer("/result/repository").is_some());
    let places = [
        "/result/snapshot",
        "/result/snapshot_uuid",
        "/result/snapshot/name",
        "/result/snapshot/uuid",
        "/result/swap/snapshot_uuid",
    ];
    let all: Vec<String> = places.into_iter().filter_map(at).chain(backup).filter(|text| !text.is_empty()).collect();
    all.into_iter().filter(move |_| is_ours)
}

fn bad(code: &str, message: String) -> Failure {
    Failure::usage(code, message)
}

fn unreadable(path: &Path, failure: Failure) -> Failure {
    let mut refusal = bad(
        "keep_from_unreadable",
        format!("The --keep-from file {} cannot be read, so nothing is deleted: {}", path.display(), failure.message),
    )
    .hint("Name files that are there; a restore point may be named by its folder.");
    refusal.causes = failure.causes;
    refusal
}

fn damaged(path: &Path, why: &str) -> Failure {
    bad("keep_from_damaged", format!("The --keep-from file {} is no whole document, so nothing is deleted.", path.display()))
        .hint("Look at that file; take it out of --keep-from if what it speaks of is not needed any more.")
        .cause(why)
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
        let begun = doc("svc-snap.create/1", &json!({"repository": "r", "name": "b", "snapshot": null}));
        let staged = doc("svc-snap.stage/1", &json!({"repository": "r", "snapshot": "c", "snapshot_uuid": "uc"}));
        fs::create_dir(at("point")).unwrap();
        write("point/snapshot.json", &created);
        let manifest = write("point/restore-point.json", r#"{"schema":"svc-restore-point/1","id":"point"}"#);
        let moved = write("backup.json", &doc("svc-backup.run/1", &json!({"restore_point": "/gone/point"})));
        let named = |files: &[PathBuf]| Named::read(files).map(|named| named.0.into_iter().collect::<Vec<_>>());
        for from in [at("point"), manifest, moved, write("one", &created)] {
            assert_eq!(named(&[from]).unwrap(), ["a", "ua"]);
        }
        assert_eq!(named(&[write("two", &format!("{begun}\n{staged}"))]).unwrap(), ["b", "c", "uc"]);
        assert!(named(&[]).unwrap().is_empty());
        let good = write("good", &created);
        for (name, text, code) in [
            ("empty", "", "keep_from_damaged"),
            ("half", created.trim_end_matches('}'), "keep_from_damaged"),
            ("other", "{}", "keep_from_damaged"),
            ("dump", &doc("svc-pgdump.dump/1", &json!({"name": "a", "repository": "x"})), "keep_from_names_none"),
            ("snapshot.json", r#"{"schema":"svc-restore-point/1"}"#, "keep_from_damaged"),
            ("none", &doc("svc-backup.run/1", &json!({"restore_point": "/gone"})), "keep_from_unreadable"),
        ] {
            let failure = named(&[good.clone(), write(name, text)]).unwrap_err();
            assert_eq!((failure.code.as_str(), failure.status.code()), (code, 2), "{name}");
        }
        assert_eq!(named(&[at("nowhere")]).unwrap_err().code, "keep_from_unreadable");
    }
}
