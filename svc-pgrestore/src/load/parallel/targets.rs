//! How each COPY block is loaded: frozen and in parallel if its table is ordinary and fresh; alone, in the dump's order, if its rows run
//! triggers or functions of the dump.

use std::collections::HashMap;

use postgres::Client;
use svc_pgdump::pg;
use svc_step::Failure;

use super::super::plan::{Build, CopyBlock};
use super::queue::Task;

#[derive(Debug)]
pub(super) enum Step<'a> {
    Copy { block: &'a CopyBlock, is_fresh: bool },
    Build(&'a Build),
}

#[derive(Debug, Default)]
struct Facts {
    oid: u32,
    is_ordinary: bool,
    is_independent: bool,
    /// Whether it may be emptied, and its rows be frozen.
    is_fresh: bool,
    /// The partitioned tables that it is a part of.
    ancestors: Vec<u32>,
}

/// Ordinary: its rows lie in it, and not in partitions or on another server. Independent: no triggers (those of foreign keys
/// included) and rules see the rows, and no checks and generated columns call functions of somebody's own, which may read other
/// tables. Fresh: logged, stored as a heap, with no rows yet, and none of an extension, which may have put rows into it.
const FACTS: &str = "
    WITH own AS (SELECT DISTINCT d.classid, d.objid FROM pg_depend d
        WHERE d.classid IN ('pg_constraint'::regclass, 'pg_attrdef'::regclass)
            AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384),
    checked AS (SELECT c.conrelid, c.contypid FROM pg_constraint c JOIN own ON own.classid = 'pg_constraint'::regclass AND own.objid = c.oid
        WHERE c.contype = 'c'),
    generated AS (SELECT a.adrelid FROM pg_attrdef a JOIN own ON own.classid = 'pg_attrdef'::regclass AND own.objid = a.oid
        JOIN pg_attribute t ON t.attrelid = a.adrelid AND t.attnum = a.adnum AND t.attgenerated <> '')
    SELECT t.name, c.oid, c.relkind = 'r',
        NOT c.relhastriggers AND NOT c.relhasrules
            AND c.oid NOT IN (SELECT conrelid FROM checked) AND c.oid NOT IN (SELECT adrelid FROM generated)
            AND NOT (EXISTS (SELECT FROM checked WHERE contypid <> 0) AND EXISTS (SELECT FROM pg_attribute a
                JOIN pg_type y ON y.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND y.oid >= 16384)),
        c.relpersistence = 'p' AND coalesce(m.amname = 'heap', false) AND pg_relation_size(c.oid) = 0
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'),
        ARRAY(SELECT p.relid::oid FROM pg_partition_ancestors(c.oid) p WHERE p.relid <> c.oid)
    FROM unnest($1::text[]) t(name) JOIN pg_class c ON c.oid = to_regclass(t.name) LEFT JOIN pg_am m ON m.oid = c.relam";

/// The tasks of the blocks, by what the server knows of their tables; and whether rows go nowhere but into the tables that are named.
pub(super) fn copies<'a>(client: &mut Client, blocks: &'a [CopyBlock]) -> Result<(Vec<Task<'a, Step<'a>>>, bool), Failure> {
    let mut names: Vec<&str> = blocks.iter().filter_map(|block| block.table.as_deref()).collect();
    names.dedup();
    if names.is_empty() {
        return Ok((Vec::new(), true));
    }
    let failed = |error: postgres::Error| pg::of_query(&error, "get what is known of the tables of the dump");
    let facts = client.query(FACTS, &[&names]).map_err(failed)?.into_iter().map(|row| {
        let facts = Facts {
            oid: row.try_get(1)?,
            is_ordinary: row.try_get(2)?,
            is_independent: row.try_get(3)?,
            is_fresh: row.try_get(4)?,
            ancestors: row.try_get(5)?,
        };
        Ok((row.try_get(0)?, facts))
    });
    let facts = facts.collect::<Result<_, postgres::Error>>().map_err(failed)?;
    Ok(place(blocks, &facts))
}

/// A block that is not independent waits for all before it, and all after it wait for it: what it does may depend on rows of other
/// tables. Of a table that the server does not know nothing is known.
fn place<'a>(blocks: &'a [CopyBlock], facts: &HashMap<String, Facts>) -> (Vec<Task<'a, Step<'a>>>, bool) {
    let unknown = Facts::default();
    let of = |block: &CopyBlock| block.table.as_deref().and_then(|table| facts.get(table)).unwrap_or(&unknown);
    let mut times: HashMap<u32, u32> = HashMap::new();
    for block in blocks {
        *times.entry(of(block).oid).or_default() += 1;
    }
    let (mut phase, mut was_alone) = (0, false);
    let place = |block: &'a CopyBlock| {
        let facts = of(block);
        // Rows of a block that names the root may be in its partitions already.
        let once = times.get(&facts.oid) == Some(&1) && facts.ancestors.iter().all(|root| !times.contains_key(root));
        let is_alone = !(facts.is_ordinary && facts.is_independent && once);
        phase += usize::from(is_alone || was_alone);
        was_alone = is_alone;
        let tables = block.table.iter().map(String::as_str).collect();
        let item = Step::Copy { block, is_fresh: facts.is_fresh && !is_alone };
        Task { item, tables, is_exclusive: true, weight: block.rows.size, phase, waits_for_all: true }
    };
    (blocks.iter().map(place).collect(), blocks.iter().all(|block| of(block).is_ordinary))
}

#[cfg(test)]
mod tests {
    use svc_pgdump::check::lexer::Position;

    use super::super::super::plan::Span;
    use super::*;

    /// Each block's phase, and how it is loaded, by the names of the tables and what is known of them.
    fn shown(names: &[&str], known: &[(&str, u32, &str, &[u32])]) -> Vec<String> {
        let nowhere = Span { at: Position::START, size: 0 };
        let block =
            |table: &&str| CopyBlock { table: Some((*table).to_owned()), statement: nowhere, rows: nowhere, rows_count: 1 };
        let blocks: Vec<CopyBlock> = names.iter().map(block).collect();
        let facts = |(name, oid, what, ancestors): &(&str, u32, &str, &[u32])| {
            let (is_ordinary, is_independent) = (!what.contains("root"), !what.contains("calls"));
            let is_fresh = !what.contains("unlogged");
            ((*name).to_owned(), Facts { oid: *oid, is_ordinary, is_independent, is_fresh, ancestors: ancestors.to_vec() })
        };
        let (placed, _) = place(&blocks, &known.iter().map(facts).collect());
        let how = |step: &Step<'_>| if matches!(step, Step::Copy { is_fresh: true, .. }) { "" } else { " as it is" };
        placed.iter().map(|task| format!("{} {}{}", task.phase, task.tables[0], how(&task.item))).collect()
    }

    #[test]
    fn function_calling_or_unknown_table_loads_alone() {
        let known: &[(&str, u32, &str, &[u32])] =
            &[("a", 1, "", &[]), ("b", 2, "unlogged", &[9]), ("check", 3, "calls", &[]), ("c", 4, "", &[]), ("d", 5, "", &[])];
        let wanted = ["0 a", "0 b as it is", "1 check as it is", "2 c", "2 d", "3 unknown as it is"];
        assert_eq!(shown(&["a", "b", "check", "c", "d", "unknown"], known), wanted);
    }

    #[test]
    fn repeated_table_or_partition_of_root_loads_alone() {
        let known: &[(&str, u32, &str, &[u32])] = &[
            ("twice", 1, "", &[]),
            ("\"twice\"", 1, "", &[]),
            ("a", 2, "", &[]),
            ("leaf", 3, "", &[4]),
            ("root", 4, "root", &[]),
        ];
        let wanted = ["1 twice as it is", "2 a", "3 leaf as it is", "4 root as it is", "5 \"twice\" as it is"];
        assert_eq!(shown(&["twice", "a", "leaf", "root", "\"twice\""], known), wanted);
    }
}
