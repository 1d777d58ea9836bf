//! Into what COPY blocks go. Rows of a fresh ordinary table are nobody else's business, so that it may be emptied, and be loaded
//! beside others; of anything else, nobody knows who looks at it or what it does.

use std::collections::{HashMap, HashSet};

use postgres::Client;
use svc_pgdump::pg;
use svc_step::Failure;

use super::super::plan::CopyBlock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) oid: u32,
    /// Whether it is an ordinary table without rows, of which nothing is odd.
    pub(super) is_plain: bool,
    /// The partitioned tables that it is a part of.
    pub(super) ancestors: Vec<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Round<'a> {
    Together(Vec<&'a CopyBlock>),
    Alone(&'a CopyBlock),
}

/// An ordinary table, logged, kept as heaps are, with no rows yet; without triggers (those of foreign keys included) and rules,
/// which would see the rows; none of an extension, which may have put rows into it; and without checks and generated columns
/// that call functions of somebody's own, which may look at other tables.
const FACTS: &str = "
    WITH own AS (SELECT DISTINCT d.classid, d.objid FROM pg_depend d
        WHERE d.classid IN ('pg_constraint'::regclass, 'pg_attrdef'::regclass)
            AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384),
    checked AS (SELECT c.conrelid, c.contypid FROM pg_constraint c JOIN own ON own.classid = 'pg_constraint'::regclass AND own.objid = c.oid
        WHERE c.contype = 'c'),
    generated AS (SELECT a.adrelid FROM pg_attrdef a JOIN own ON own.classid = 'pg_attrdef'::regclass AND own.objid = a.oid
        JOIN pg_attribute t ON t.attrelid = a.adrelid AND t.attnum = a.adnum AND t.attgenerated <> '')
    SELECT t.name, c.oid,
        c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhastriggers AND NOT c.relhasrules AND m.amname = 'heap'
            AND pg_relation_size(c.oid) = 0
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
            AND c.oid NOT IN (SELECT conrelid FROM checked) AND c.oid NOT IN (SELECT adrelid FROM generated)
            AND NOT (EXISTS (SELECT FROM checked WHERE contypid <> 0) AND EXISTS (SELECT FROM pg_attribute a
                JOIN pg_type y ON y.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND y.oid >= 16384)),
        ARRAY(SELECT p.relid::oid FROM pg_partition_ancestors(c.oid) p WHERE p.relid <> c.oid)
    FROM unnest($1::text[]) t(name) JOIN pg_class c ON c.oid = to_regclass(t.name) LEFT JOIN pg_am m ON m.oid = c.relam";

/// Asks about the tables of the blocks, by their names in the dump; one that is not there is not in the answer.
pub(super) fn ask(client: &mut Client, blocks: &[CopyBlock]) -> Result<HashMap<String, Facts>, Failure> {
    let names: HashSet<&str> = blocks.iter().filter_map(|block| block.table.as_deref()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let told = |error: postgres::Error| pg::of_query(&error, "ask about the tables of the dump");
    let rows = client.query(FACTS, &[&names]).map_err(told)?;
    let facts = rows.iter().map(|row| {
        let facts = Facts {
            oid: row.try_get(1)?,
            is_plain: row.try_get::<_, Option<bool>>(2)?.unwrap_or_default(),
            ancestors: row.try_get(3)?,
        };
        Ok((row.try_get(0)?, facts))
    });
    facts.collect::<Result<_, postgres::Error>>().map_err(told)
}

/// What is loaded at one time. A block that is alone waits for all before it, and all after it wait for it: what it does may
/// depend on rows of other tables.
pub(super) fn rounds<'a>(blocks: &'a [CopyBlock], facts: &HashMap<String, Facts>) -> Vec<Round<'a>> {
    let of = |block: &CopyBlock| facts.get(block.table.as_deref()?);
    let mut times: HashMap<u32, u32> = HashMap::new();
    for facts in blocks.iter().filter_map(of) {
        *times.entry(facts.oid).or_default() += 1;
    }
    let is_plain = |block: &CopyBlock| {
        of(block).is_some_and(|facts| {
            let once = times.get(&facts.oid) == Some(&1);
            // Rows of a block that names the root may be in its partitions already.
            facts.is_plain && once && facts.ancestors.iter().all(|root| !times.contains_key(root))
        })
    };
    let mut rounds = Vec::new();
    for block in blocks {
        match rounds.last_mut() {
            _ if !is_plain(block) => rounds.push(Round::Alone(block)),
            Some(Round::Together(others)) => others.push(block),
            _ => rounds.push(Round::Together(vec![block])),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use svc_pgdump::check::lexer::Position;

    use super::super::super::plan::Span;
    use super::*;

    fn block(table: &str) -> CopyBlock {
        let nowhere = Span { at: Position::START, size: 0 };
        CopyBlock { table: Some(table.to_owned()), statement: nowhere, rows: nowhere, row_count: 1 }
    }

    fn facts(all: &[(&str, u32, bool, &[u32])]) -> HashMap<String, Facts> {
        let facts = |(name, oid, is_plain, ancestors): &(&str, u32, bool, &[u32])| {
            ((*name).to_owned(), Facts { oid: *oid, is_plain: *is_plain, ancestors: ancestors.to_vec() })
        };
        all.iter().map(facts).collect()
    }

    fn shown(blocks: &[CopyBlock], facts: &HashMap<String, Facts>) -> Vec<String> {
        let name = |block: &CopyBlock| block.table.clone().unwrap_or_default();
        let round = |round: &Round<'_>| match round {
            Round::Alone(block) => format!("alone {}", name(block)),
            Round::Together(blocks) => blocks.iter().map(|block| name(block)).collect::<Vec<_>>().join(" "),
        };
        rounds(blocks, facts).iter().map(round).collect()
    }

    #[test]
    fn what_is_odd_or_not_known_is_alone_where_it_stands() {
        let blocks = ["a", "b", "odd", "c", "d", "unknown"].map(block);
        let facts =
            facts(&[("a", 1, true, &[]), ("b", 2, true, &[9]), ("odd", 3, false, &[]), ("c", 4, true, &[]), ("d", 5, true, &[])]);
        assert_eq!(shown(&blocks, &facts), ["a b", "alone odd", "c d", "alone unknown"]);
    }

    #[test]
    fn what_occurs_twice_and_a_part_of_what_is_loaded_as_a_whole_is_alone() {
        let blocks = ["twice", "a", "twice", "leaf", "root", "\"twice\""].map(block);
        let facts = facts(&[
            ("twice", 1, true, &[]),
            ("\"twice\"", 1, true, &[]),
            ("a", 2, true, &[]),
            ("leaf", 3, true, &[4]),
            ("root", 4, false, &[]),
        ]);
        assert_eq!(shown(&blocks, &facts), ["alone twice", "a", "alone twice", "alone leaf", "alone root", "alone \"twice\""]);
    }
}
