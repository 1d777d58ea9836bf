//! Our reader of dumps and PostgreSQL's own scanner find the same ends of statements, in SQL made of whatever begins, ends or hides
//! something. What ours refuses to read, and what the server's does, is not compared.

use pg_query::protobuf::Token;
use proptest::prelude::*;
use svc_pgdump::check::lexer::{Kind, Unit, Units};

/// Where our reader ends statements; `None` if it refuses the text or finds a command for psql, which the server knows nothing of.
fn ours(text: &str, chunk: usize) -> Option<Vec<usize>> {
    let (mut units, mut ends, mut is_sql) = (Units::default(), Vec::new(), true);
    let mut take = |unit: &Unit<'_>| {
        is_sql &= matches!(unit.kind, Kind::Statement | Kind::Comment);
        if unit.kind == Kind::Statement {
            ends.push(usize::try_from(unit.at.byte + unit.size).unwrap() - 1);
        }
    };
    text.as_bytes().chunks(chunk).for_each(|piece| units.feed(piece, &mut take));
    let reason = units.finish().reason;
    let is_read = reason.is_none_or(|reason| ["it ends inside a statement", "it ends inside a comment"].contains(&reason));
    (is_sql && is_read).then_some(ends)
}

/// Where the server's scanner finds semicolons outside of parentheses; `None` if it refuses the text.
fn servers(text: &str) -> Option<Vec<usize>> {
    let mut depth = 0_u32;
    let mut ends = Vec::new();
    for token in pg_query::scan(text).ok()?.tokens {
        match token.token() {
            Token::Ascii40 => depth += 1,
            Token::Ascii41 => depth = depth.saturating_sub(1),
            Token::Ascii59 if depth == 0 => ends.push(usize::try_from(token.start).unwrap()),
            _ => {}
        }
    }
    Some(ends)
}

/// What SQL is made of here, between bars.
const PARTS: &str = "'¦''¦\"¦\"\"¦$¦$$¦$t$¦$t1$¦E'¦e'¦U&'¦U&\"¦B'¦x'¦N'¦\\¦\\'¦\\\\¦-¦->¦--¦/*¦*/¦/¦*¦(¦)¦[¦]¦ ¦\n¦\r¦\t¦\u{c}¦\u{a0}¦\u{3000}\
    ¦:¦::¦:=¦.¦..¦,¦=¦<¦@¦&¦|¦1¦1.5¦1e5¦1e¦0x1F¦1_000¦$1¦a¦e¦E¦t¦n¦u¦_¦é¦select¦from¦copy t¦begin¦end¦set a = ¦create function f()\
    ¦comment on table t is ¦';'¦\";\"¦$$;$$¦$t$;$t$¦E'\\';'¦U&';'¦/*;*/¦/*/*;*/*/¦--;\n¦(;)¦;¦;¦; ¦;\n¦;\n";

fn sql() -> impl Strategy<Value = String> {
    let parts: Vec<&str> = PARTS.split('¦').collect();
    let part = prop_oneof![9 => proptest::sample::select(parts).prop_map(str::to_owned), 1 => "[ -~]{1,4}"];
    proptest::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000_000, failure_persistence: None, max_global_rejects: u32::MAX, ..ProptestConfig::default() })]

    #[test]
    fn statements_end_where_the_server_ends_them(text in sql(), chunk in 1_usize..50) {
        if let (Some(ours), Some(servers)) = (ours(&text, chunk), servers(&text)) {
            prop_assert_eq!(ours, servers, "{:?}", text);
        }
    }
}

#[test]
fn both_read_what_a_dump_has() {
    let dump = "SET a = 'x;y';\n-- c;\nCREATE FUNCTION f() RETURNS text LANGUAGE sql AS $_$ SELECT ';' $_$;\nCREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);\n";
    assert_eq!(ours(dump, 7), servers(dump));
    assert_eq!(ours(dump, 7).unwrap().len(), 3);
}
