//! The verification after the load: the rows of the dump have arrived, and its objects are there. With the planner's statistics, without which the first queries of the service would be planned badly.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use postgres::Client;
use svc_pgdump::check::lexer::{Kind, Unit, Units};
use svc_pgdump::pg::{self, Target};
use svc_pgdump::{Dump, PgDump, TableRows};
use svc_step::progress::{Progress, Unit::Items};
use svc_step::work::joined;
use svc_step::{Call, Failure};

use crate::admin::{Admin, Sessions, names, query, query_one};
use crate::create::Creation;
use crate::document::{Named, Verification};

/// How many differences are named.
const NAMED: usize = 10;
pub(crate) const ROWS: &str = "does not hold the rows of the dump";

/// The tables of COPY blocks, their rows in the dump, and whether there may be more (an extension may have put some into its own).
/// Rows of a partition are counted with the topmost table that a block names too; those of foreign tables lie elsewhere.
const COPIED: &str = "
    WITH named AS (SELECT to_regclass(name)::oid AS oid, sum(rows) AS rows FROM unnest($1::text[], $2::int8[]) t(name, rows) GROUP BY 1),
    above AS (SELECT DISTINCT ON (named.oid) named.oid, a.relid::oid FROM named CROSS JOIN pg_partition_ancestors(named.oid) WITH ORDINALITY
        a(relid, n) JOIN named root ON root.oid = a.relid ORDER BY named.oid, a.n DESC),
    rooted AS (SELECT rows, coalesce(relid, named.oid) AS oid FROM named LEFT JOIN above ON above.oid = named.oid)
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relkind = 'p', sum(r.rows)::int8,
        EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    FROM rooted r JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind <> 'f' GROUP BY c.oid, n.nspname, c.relname, c.relkind";

/// What ANALYZE would take, the largest first, except tables above foreign tables: to sample one with all below it, the server would
/// ask other servers, and fail if one of them is down. A partitioned table includes its partitions.
const ANALYZED: &str = "
    WITH RECURSIVE above AS (
        SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'f'
        UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above ON above.inhparent = i.inhrelid)
    SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND NOT c.relisshared
        AND c.oid NOT IN (SELECT inhparent FROM above)
        AND NOT (c.relispartition AND EXISTS (SELECT FROM pg_catalog.pg_inherits i
            WHERE i.inhrelid = c.oid AND i.inhparent NOT IN (SELECT inhparent FROM above)))
    ORDER BY c.relpages DESC, c.oid";
/// So many are one statement each; of the others, so many are one statement together.
const LARGE: usize = 32;
const TOGETHER: usize = 50;

/// A transaction that waits for this server's disk, and so for all that was written before it.
const ON_DISK: &str = "SET synchronous_commit = local; SELECT pg_logical_emit_message(true, 'svc-pgrestore', 'verified')";

/// The rows were compared when they were loaded. Statistics are gathered while a pg_dump lists the objects; then the copy is closed, so
/// that it stays what is verified.
pub(crate) fn verify(
    call: &Call,
    admin: &mut Admin,
    sessions: &mut Sessions,
    dump: &Dump,
    objects: &mut Objects,
    creation: &Creation,
    copy: &Named,
) -> Result<Verification, Failure> {
    let progress = call.progress("verify", Items("tables"));
    sessions.all().try_for_each(|client| pg::reset(client, pg::VERIFY))?;
    let analyzed = names(&mut sessions.first, "list the tables to analyze", ANALYZED, &[])?;
    let (own, target, major) = (sessions.pids.clone(), Arc::clone(&admin.target), admin.server.major());
    let differs = AtomicBool::new(false);
    let objects_count = std::thread::scope(|scope| {
        let compare = || objects.compare(call, &target, major, &copy.name, dump).inspect_err(|_| differs.store(true, Relaxed));
        let compared = scope.spawn(compare);
        let gathered = admin.supervised(call, &own, &|| differs.load(Relaxed), || analyze(sessions, &analyzed, &progress));
        let compared = joined(compared)??;
        gathered.map(|()| compared)
    })?;
    admin.close(call, creation, copy, &own)?;
    admin.supervised(call, &own, &|| false, || check_rows(&mut sessions.first, dump, objects))?;
    let tables: BTreeSet<String> = dump.contents.tables.iter().map(TableRows::quoted).collect();
    Ok(Verification {
        tables_count: u64::try_from(tables.len()).unwrap_or(u64::MAX),
        rows_count: dump.contents.rows_count,
        objects_count,
        large_objects_count: objects.large_objects_count,
    })
}

fn check_rows(client: &mut Client, dump: &Dump, objects: &Objects) -> Result<(), Failure> {
    if objects.may_change_rows {
        count_rows(client, &dump.contents.tables)?;
    }
    let counted: i64 = query_one(client, "count the large objects", "SELECT count(*) FROM pg_largeobject_metadata", &[])?;
    if u64::try_from(counted).is_ok_and(|counted| counted == objects.large_objects_count) {
        return Ok(());
    }
    let difference = format!("{} in the dump, {counted} in the database", objects.large_objects_count);
    Err(differs("does not hold the large objects of the dump", vec![difference]))
}

/// Counts the rows once more if the dump has statements that may have changed them since their COPY.
fn count_rows(client: &mut Client, tables: &[TableRows]) -> Result<(), Failure> {
    let count = |table: &TableRows| (table.quoted(), i64::try_from(table.rows_count).unwrap_or(i64::MAX));
    let (names, counts): (Vec<String>, Vec<i64>) = tables.iter().map(count).unzip();
    let mut differences = Vec::new();
    for row in query(client, "count the rows", COPIED, &[&names, &counts])? {
        let (table, is_partitioned, expected, or_more): (String, bool, i64, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        // Without the rows of tables that inherit from it; a partitioned table has none of its own.
        let only = if is_partitioned { "" } else { "ONLY " };
        let counted: i64 = query_one(client, "count the rows", &format!("SELECT count(*) FROM {only}{table}"), &[])?;
        if counted != expected && !(or_more && counted > expected) {
            differences.push(format!("{table}: {expected} rows in the dump, {counted} in the database"));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differs(ROWS, differences)) }
}

pub(crate) fn differs(how: &str, differences: Vec<String>) -> Failure {
    let failure = Failure::invalid("content_differs", format!("What was loaded {how}."))
        .hint("Check the dump with svc-pgdump verify FILE; if it is invalid, restore another one.");
    differences.into_iter().take(NAMED).fold(failure, Failure::cause)
}

fn analyze(sessions: &mut Sessions, tables: &[String], progress: &Progress) -> Result<(), Failure> {
    let (large, small) = tables.split_at_checked(LARGE).unwrap_or((tables, &[]));
    let groups = Mutex::new(large.chunks(1).chain(small.chunks(TOGETHER)));
    let next = || groups.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = |client: &mut Client| {
        while let Some(tables) = next() {
            progress.at(&format!("ANALYZE {}", tables.first().map_or("", String::as_str)));
            if let Err(error) = client.batch_execute(&format!("ANALYZE {}", tables.join(", "))) {
                // The others end too.
                while next().is_some() {}
                return Err(pg::of_query(&error, "gather statistics (ANALYZE)"));
            }
        }
        client.batch_execute(ON_DISK).map_err(|error| pg::of_query(&error, "wait for the server's disk"))
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = sessions.all().map(|client| scope.spawn(|| work(client))).collect();
        workers.into_iter().try_for_each(|worker| joined(worker)?)
    })
}

const HEADING: &[u8] = b"-- Name: ";
/// Headings that are not compared: data, privileges, what the restore leaves out, and what another server version writes differently.
const NOT_COMPARED: &str = "ACL;BLOB;BLOB METADATA;BLOBS;DEFAULT ACL;MATERIALIZED VIEW DATA;SECURITY LABEL;SEQUENCE SET;STATISTICS DATA;\
    SUBSCRIPTION;SUBSCRIPTION TABLE;TABLE DATA";
/// The comments of these.
const NOT_COMMENTED: [&str; 4] = ["EXTENSION ", "SCHEMA public", "SUBSCRIPTION ", "LARGE OBJECT "];
const LARGE_OBJECT: &[u8] = b"SELECT pg_catalog.lo_create('";
/// Statements that pg_dump writes besides COPY; none changes how many rows a table has.
const KEEP_ROWS: &str = "ALTER ;BEGIN;COMMENT ON ;COMMIT;COPY ;CREATE ;GRANT ;REFRESH MATERIALIZED VIEW ;RESET ;REVOKE ;SECURITY LABEL ;\
    SELECT * FROM pg_catalog.;SELECT pg_catalog.;SET ";

/// What a dump holds besides rows, by pg_dump's own headings (`-- Name: …; Type: …; Schema: …`), as it passes by: each object of the dump
/// is to be in a `pg_dump --schema-only` of the copy too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    /// Name, type and schema of each, as they are compared.
    headings: Vec<Box<[u8]>>,
    pub(crate) large_objects_count: u64,
    /// Whether a statement may have changed rows (DELETE, a function of the dump), so that those of COPY do not tell.
    pub(crate) may_change_rows: bool,
    /// Whether a table has no owner (`pg_dump --no-owner`): whoever loads it gets it.
    pub(crate) lacks_owners: bool,
}

impl Objects {
    pub(crate) fn unit(&mut self, unit: &Unit<'_>) {
        if unit.kind == Kind::Comment {
            let Some((heading, has_owner)) = compared(unit.bytes) else { return };
            self.lacks_owners |= !has_owner;
            self.headings.push(heading);
        } else if unit.kind == Kind::Statement {
            self.large_objects_count += u64::from(unit.bytes.starts_with(LARGE_OBJECT));
            self.may_change_rows |= !KEEP_ROWS.split(';').any(|start| unit.bytes.starts_with(start.as_bytes()));
        }
    }

    /// Compares with the copy; how many objects both have, `None` if there is no pg_dump that could tell.
    fn compare(&mut self, call: &Call, target: &Target, major: u32, copy: &str, dump: &Dump) -> Result<Option<u64>, Failure> {
        let writer = dump.pg_dump_version.as_deref().unwrap_or_default();
        let Some(program) = PgDump::for_schema(call, major, writer) else {
            call.review(
                "not_checked",
                "The objects of the copy were not compared with those of the dump: there is no pg_dump of the server's version or newer.",
            );
            return Ok(None);
        };
        let (mut units, mut found) = (Units::default(), Self::default());
        program.schema(call, target, copy, dump.encoding.as_deref(), |bytes| {
            units.feed(bytes, &mut |unit| found.unit(unit));
        })?;
        let missing = self.missing(found);
        let count = u64::try_from(self.headings.len()).unwrap_or(u64::MAX);
        if missing.is_empty() { Ok(Some(count)) } else { Err(differs("lacks objects of the dump", missing)) }
    }

    /// Those that are not in the other one as often.
    fn missing(&mut self, mut other: Self) -> Vec<String> {
        self.headings.sort_unstable();
        other.headings.sort_unstable();
        let mut there = other.headings.iter().map(AsRef::as_ref).peekable();
        let is_missing = |heading: &&[u8]| {
            while there.next_if(|one| one < heading).is_some() {}
            there.next_if(|one| one == heading).is_none()
        };
        let headings = self.headings.iter().map(AsRef::as_ref);
        headings.filter(is_missing).map(|heading| String::from_utf8_lossy(heading).into_owned()).collect()
    }
}

/// A heading without the owner, if its object is compared, and without quotes, which not every dump has around each name; and whether
/// it has an owner, if it is of a table: extensions have none.
fn compared(comment: &[u8]) -> Option<(Box<[u8]>, bool)> {
    let mut heading = comment.strip_prefix(HEADING)?.to_vec();
    heading.retain(|byte| *byte != b'"');
    // A name may hold anything, so from the end.
    let at = memchr::memmem::rfind(&heading, b"; Owner: ")?;
    let (heading, owner) = heading.split_at_checked(at)?;
    let at = memchr::memmem::rfind(heading, b"; Type: ")?;
    let (name, rest) = heading.split_at_checked(at)?;
    let kind = rest.strip_prefix(b"; Type: ")?.split(|byte| *byte == b';').next()?;
    let left_out = NOT_COMPARED.split(';').any(|left_out| left_out.as_bytes() == kind)
        || (kind == b"COMMENT" && NOT_COMMENTED.iter().any(|start| name.starts_with(start.as_bytes())))
        || matches!((kind, name), (b"SCHEMA", b"public") | (b"EXTENSION", b"plpgsql"));
    let has_owner = kind != b"TABLE" || owner.split(|byte| b";\n".contains(byte)).nth(1) != Some(b" Owner: -");
    (!left_out).then(|| (heading.into(), has_owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(dump: &str) -> Objects {
        let (mut units, mut objects) = (Units::default(), Objects::default());
        dump.as_bytes().chunks(7).for_each(|chunk| units.feed(chunk, &mut |unit| objects.unit(unit)));
        objects
    }

    const DUMP: &str = "-- Name: a; Type: TABLE; Schema: public; Owner: svc\n\
        -- Name: a; Type: TABLE; Schema: public; Owner: svc\n-- Name: we;ird; Type: TABLE; Type: INDEX; Schema: s; Owner: x; Tablespace: t\n\
        -- Data for Name: a; Type: TABLE DATA; Schema: public; Owner: svc\n-- Name: EXTENSION e; Type: COMMENT; Schema: -; Owner: \n\
        -- Name: TABLE a; Type: ACL; Schema: public; Owner: svc\nCOMMENT ON TABLE a IS '\n-- Name: x; Type: TABLE; Schema: p; Owner: o\n';\n\
        SELECT pg_catalog.lo_create('7');\nSELECT pg_catalog.lo_create('8');\n";

    #[test]
    fn missing_object_is_found_by_name_type_and_schema() {
        let mut dump = objects(DUMP);
        assert_eq!((dump.headings.len(), dump.large_objects_count), (3, 2));
        assert!(dump.missing(objects(DUMP)).is_empty());
        let deletes = format!("{DUMP}DELETE FROM a;\n");
        assert_eq!((dump.may_change_rows, objects(&deletes).may_change_rows), (false, true));
        let once = DUMP.replacen("-- Name: a; Type: TABLE; Schema: public; Owner: svc\n", "", 1).replace("Owner: x", "Owner: y");
        assert_eq!(dump.missing(objects(&once)), ["a; Type: TABLE; Schema: public"]);
        assert!(objects(&once).missing(dump).is_empty());
    }
}
