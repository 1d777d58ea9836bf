-- The rarer kinds of objects, and what the objects of every_kind.sql have besides. Run after it, in the same way.
SELECT :SERVER_VERSION_NUM >= 140000 AS v14, :SERVER_VERSION_NUM >= 150000 AS v15, :SERVER_VERSION_NUM >= 180000 AS v18
\gset
SET check_function_bodies = off;
SET client_min_messages = warning;
CREATE SCHEMA more;
SET search_path = more, public;

-- A type of its own, in C's manner, with what belongs to it.
CREATE TYPE own;
CREATE FUNCTION own_in(cstring) RETURNS own LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION own_out(own) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION own_less(own, own) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
CREATE FUNCTION own_compare(own, own) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, LIKE = int4, CATEGORY = 'N', DELIMITER = ';', DEFAULT = '7');
CREATE FUNCTION own_to_text(own) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'own; ' || more.own_out($1)::text $$;
CREATE OPERATOR <<< (LEFTARG = own, RIGHTARG = own, FUNCTION = own_less, RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR FAMILY own_family USING btree;
CREATE OPERATOR CLASS own_class DEFAULT FOR TYPE own USING btree FAMILY own_family AS OPERATOR 1 <<<, FUNCTION 1 own_compare(own, own);
ALTER OPERATOR FAMILY own_family USING btree ADD OPERATOR 1 < (int8, int8);
CREATE CAST (own AS text) WITH FUNCTION own_to_text(own) AS ASSIGNMENT;
CREATE CAST (own AS int) WITHOUT FUNCTION AS IMPLICIT;
CREATE TABLE of_own (a own DEFAULT '8', b own[], c text);
INSERT INTO of_own SELECT '3', ARRAY['1', NULL, '2']::own[], 'x';
CREATE INDEX ON of_own USING btree (a);

-- Languages, transforms, text search from the ground, access methods for indexes, conversions.
CREATE FUNCTION call_handler() RETURNS language_handler LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler';
CREATE FUNCTION inline_handler(internal) RETURNS void LANGUAGE c STRICT AS '$libdir/plpgsql', 'plpgsql_inline_handler';
CREATE FUNCTION validator(oid) RETURNS void LANGUAGE c STRICT AS '$libdir/plpgsql', 'plpgsql_validator';
CREATE TRUSTED LANGUAGE plother HANDLER call_handler INLINE inline_handler VALIDATOR validator;
CREATE FUNCTION in_other() RETURNS text LANGUAGE plother AS $x$ BEGIN RETURN $y$;$$\.
COPY more.q FROM stdin;$y$; END $x$;
CREATE FUNCTION from_sql(internal) RETURNS internal LANGUAGE internal STRICT IMMUTABLE AS 'prsd_lextype';
CREATE TRANSFORM FOR own LANGUAGE plother (FROM SQL WITH FUNCTION from_sql(internal));
CREATE TEXT SEARCH PARSER words (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, LEXTYPES = prsd_lextype, HEADLINE = prsd_headline);
CREATE TEXT SEARCH TEMPLATE plain (INIT = dsimple_init, LEXIZE = dsimple_lexize);
CREATE TEXT SEARCH CONFIGURATION own_words (PARSER = words);
ALTER TEXT SEARCH CONFIGURATION own_words ADD MAPPING FOR asciiword, email WITH simple, english_stem;
CREATE ACCESS METHOD tree TYPE INDEX HANDLER bthandler;
CREATE COLLATION "C; \" (LC_COLLATE = 'C', LC_CTYPE = 'C.UTF-8');

-- Domains over anything, with everything.
CREATE DOMAIN short AS varchar(20) COLLATE "C" DEFAULT ';' NOT NULL CHECK (VALUE <> '\.') CONSTRAINT "not;'" CHECK (length(VALUE) < 20);
CREATE DOMAIN numbers AS int[] CHECK (array_length(VALUE, 1) < 9);
CREATE TYPE nested AS (n public.pair, l numbers, r public.floats);
ALTER DOMAIN short ADD CONSTRAINT later CHECK (VALUE <> 'never') NOT VALID;
CREATE TABLE of_domains (s short, l numbers, n nested, CHECK ((n).n IS NULL OR ((n).n).a > 0));
INSERT INTO of_domains VALUES ('a', '{1,2}', ROW(ROW(1, E'a"\\,)'), '{3}', '[1,2)')), ('b;', NULL, NULL);

-- Values that are traps of their own.
CREATE TABLE "values" (n int PRIMARY KEY, t text, b bytea, f float8, d date, i interval, u uuid, j json, x xml, bits bit varying, p point, net inet, m money);
INSERT INTO "values" VALUES
    (1, E'\\N', '\x00', 'NaN', 'infinity', '1 year -2 days +03:04:05.6', '00000000-0000-0000-0000-000000000001', '{"a" : 1,  "a":2}', '<a>;</a>', B'', '(1,-0)', '::1/64', 1.5),
    (2, E'\\.', '', '-Infinity', '4713-01-01 BC', '-1 s', NULL, '"\u00e4\\."', NULL, B'101', '(Infinity,NaN)', '10.0.0.1', -92233720368547758.08),
    (3, E'\r\n\t\b\f\v\x01', E'\\x5c2e0a', '1e-307', '0044-03-15 BC', NULL, NULL, 'null', NULL, NULL, NULL, NULL, NULL),
    (4, '', NULL, 0.1 + 0.2, NULL, 'P1Y2M3DT4H5M6S', NULL, NULL, NULL, NULL, NULL, NULL, 0),
    (5, 'ü 漢 🙂 e' || U&'\0301', NULL, '-0', '5874897-12-31', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (6, repeat('long ', 300000), decode(repeat('5c2e0a0d', 100000), 'hex'), 5e-324, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE "values" ADD COLUMN added_later text DEFAULT 'fast; default' NOT NULL;

-- Names.
CREATE TABLE "line
break; -- Name: x; Type: TABLE DATA" ("\.
" int, "a	tab" int, "$$" text, "%s" text, "E'\\'" text, "üÄ漢🙂" int, "x'y" int DEFAULT 5);
INSERT INTO "line
break; -- Name: x; Type: TABLE DATA" VALUES (1, 2, '$$', '%', 'E', 3), (NULL, NULL, NULL, NULL, NULL, NULL);
CREATE FUNCTION "f(int); $_$ \"("a;b" int, OUT "out ""x""" text, VARIADIC "v," text[] DEFAULT ARRAY['$_$', ';']) LANGUAGE sql
    AS $_x_$ SELECT '$_$'::text; $_x_$;
CREATE TABLE sixty_three_bytes_is_the_longest_name_that_a_table_can_have_here (n int);
CREATE TABLE "ELSE" ("END" int CONSTRAINT "CASE" CHECK ("END" > CASE WHEN true THEN 0 END));
CREATE TABLE "atomic" ("begin" int DEFAULT 1);
CREATE SEQUENCE "COPY";
CREATE VIEW "from" AS SELECT "begin" AS "stdin" FROM "atomic";

-- Tables as they may be kept, and columns as they may be set.
CREATE TABLE kept (a int, b text, c text, d int) WITH (fillfactor = 70, autovacuum_enabled = off, toast.autovacuum_enabled = off);
ALTER TABLE kept ALTER b SET STORAGE MAIN, ALTER c SET (n_distinct = -0.5), ALTER d SET STATISTICS 0;
ALTER TABLE kept REPLICA IDENTITY FULL;
ALTER TABLE of_own REPLICA IDENTITY NOTHING;
CREATE INDEX kept_expressions ON kept ((a + d), (b || c) COLLATE "POSIX" text_pattern_ops DESC NULLS LAST) WITH (deduplicate_items = off);
ALTER INDEX kept_expressions ALTER COLUMN 1 SET STATISTICS 500;
CREATE INDEX kept_tree ON kept USING gist (a gist_int4_ops);
CREATE INDEX kept_trigrams ON kept USING gist (b gist_trgm_ops (siglen = 32));
CREATE STATISTICS kept_values (mcv) ON a, d FROM kept;
\if :v14
CREATE STATISTICS kept_sums (ndistinct) ON (a + d), b FROM kept;
ALTER STATISTICS kept_sums SET STATISTICS 60;
ALTER TABLE kept ALTER c SET COMPRESSION pglz;
CREATE FUNCTION with_out(IN a int, INOUT b int, OUT c int) LANGUAGE sql RETURN (1, 2);
CREATE OR REPLACE PROCEDURE atomics(a int) LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO more.kept (a) SELECT CASE a WHEN 1 THEN CASE WHEN a > 0 THEN 1 END ELSE 2 END AS "end";
    DELETE FROM more.kept WHERE b = ';' AND c = 'END;' /* END; */;
END;
CREATE TYPE named_multi AS RANGE (subtype = int8, multirange_type_name = "multi; of int8");
CREATE TABLE of_ranges (m "multi; of int8");
INSERT INTO of_ranges VALUES ('{[1,2),[5,)}'), ('{}');
\endif
ALTER TABLE kept ADD CONSTRAINT apart EXCLUDE USING gist (a WITH =, d WITH <>) WHERE (a > 0) DEFERRABLE;
CREATE TABLE grand (a int NOT NULL DEFAULT 1, b text CHECK (b <> ''));
CREATE TABLE other_grand (a int DEFAULT 2, c int);
CREATE TABLE heir (a int DEFAULT 3, own int) INHERITS (grand, other_grand);
CREATE TABLE second_heir () INHERITS (heir);
ALTER TABLE second_heir ALTER a SET DEFAULT 9;
\if :v18
-- Of an older server, pg_dump 18 writes this down as only servers from 18 on can read it.
ALTER TABLE second_heir ALTER c SET NOT NULL;
\endif
INSERT INTO second_heir (b, c) VALUES ('x', 1);
CREATE TABLE generations (a int, g text GENERATED ALWAYS AS ('\.' || CASE WHEN a > 0 THEN 'END;' END) STORED,
    z int GENERATED BY DEFAULT AS IDENTITY (MINVALUE -5 START -5));
INSERT INTO generations (a) VALUES (1), (NULL);
CREATE TABLE generations_heir () INHERITS (generations);

-- Partitions with a history of their own.
CREATE TYPE hue AS ENUM ('red', 'green');
ALTER TYPE hue ADD VALUE 'blue' BEFORE 'green';
CREATE TABLE parted (a int, b text, c public.pair) PARTITION BY RANGE (a, lower(b));
CREATE TABLE parted_1 (c public.pair, gone int, b text, a int);
ALTER TABLE parted_1 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (MINVALUE, MINVALUE) TO (5, 'm');
CREATE TABLE "parted_2;" PARTITION OF parted (b DEFAULT 'two', CONSTRAINT own CHECK (a > 0)) FOR VALUES FROM (5, 'm') TO (MAXVALUE, MAXVALUE);
INSERT INTO parted SELECT n, 'x' || n, ROW(n, 'y')::public.pair FROM generate_series(1, 20) n;
CREATE TABLE detached PARTITION OF parted DEFAULT;
ALTER TABLE parted DETACH PARTITION detached;
CREATE TABLE empty_parted (l text) PARTITION BY LIST (l);
ALTER TABLE parted ADD CONSTRAINT parted_fk FOREIGN KEY (a) REFERENCES public.by_range (n) ON UPDATE CASCADE ON DELETE SET NULL;

-- Views, what hangs between them, rules and triggers.
CREATE TABLE keyed (id int PRIMARY KEY, t text);
CREATE VIEW needs_the_key AS SELECT id, t, count(*) AS n FROM keyed GROUP BY id;
CREATE VIEW on_it WITH (security_barrier) AS SELECT id, t FROM keyed WHERE t <> E'\\.' WITH LOCAL CHECK OPTION;
CREATE MATERIALIZED VIEW material WITH (fillfactor = 80) AS SELECT id, n FROM needs_the_key;
CREATE MATERIALIZED VIEW on_material AS SELECT count(*) AS n FROM material WITH NO DATA;
CREATE MATERIALIZED VIEW on_table (a, "b;") AS SELECT n, t FROM "values" WHERE n < 4;
CREATE MATERIALIZED VIEW on_that AS SELECT a + 1 AS a FROM on_table;
CREATE INDEX ON on_table ("b;");
COMMENT ON MATERIALIZED VIEW on_that IS 'two; deep';
CREATE VIEW round_about AS SELECT 1 AS a, 'x'::text AS b;
CREATE FUNCTION of_view(round_about) RETURNS int LANGUAGE sql AS 'SELECT $1.a';
CREATE FUNCTION as_table() RETURNS TABLE (a int, b more.keyed) LANGUAGE plpgsql COST 7 ROWS 3 PARALLEL SAFE LEAKPROOF SECURITY DEFINER
    SET search_path = more, "$user" SET work_mem = '5MB' AS $$ BEGIN RETURN; END $$;
ALTER VIEW round_about ALTER a SET DEFAULT 5;
CREATE RULE more_than_one AS ON INSERT TO round_about DO INSTEAD (INSERT INTO keyed VALUES (NEW.a); NOTIFY "a;b", 'c');
CREATE RULE also AS ON UPDATE TO keyed WHERE OLD.t = 'never;' DO ALSO NOTHING;
ALTER TABLE keyed DISABLE RULE also;
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER instead INSTEAD OF DELETE ON round_about FOR EACH ROW EXECUTE FUNCTION look('', E'\\', 'it''s');
CREATE TRIGGER whole AFTER UPDATE ON keyed REFERENCING OLD TABLE AS "old;" NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION look();
CREATE TRIGGER some_columns AFTER UPDATE OF t ON keyed FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER sometimes BEFORE UPDATE ON keyed FOR EACH ROW WHEN (OLD.t IS DISTINCT FROM NEW.t || ';') EXECUTE FUNCTION look();
CREATE TRIGGER on_parts AFTER INSERT ON parted FOR EACH ROW EXECUTE FUNCTION look();
ALTER TABLE "parted_2;" DISABLE TRIGGER on_parts;
ALTER TABLE keyed ENABLE REPLICA TRIGGER sometimes;
COMMENT ON TRIGGER sometimes ON keyed IS E'-- Name: x; Type: TRIGGER\n';
COMMENT ON RULE also ON keyed IS '\.';
INSERT INTO keyed VALUES (1, 'a'), (2, NULL);
REFRESH MATERIALIZED VIEW material;

-- Foreign data, large objects, publications.
CREATE FOREIGN DATA WRAPPER wrapped OPTIONS (a 'b;');
CREATE SERVER "server;" TYPE 't''' VERSION E'\\.' FOREIGN DATA WRAPPER wrapped;
CREATE USER MAPPING FOR PUBLIC SERVER "server;" OPTIONS (password E'\\.');
CREATE FOREIGN TABLE afar (a int NOT NULL DEFAULT 4, b text OPTIONS (column_name 'B"') CHECK (b <> ';')) SERVER "server;" OPTIONS (t 'x');
CREATE FOREIGN TABLE afar_part PARTITION OF empty_parted FOR VALUES IN ('far') SERVER "server;";
SELECT lo_from_bytea(100 + n, convert_to(repeat(E'\\.\n', n), 'UTF8')) FROM generate_series(1, 30) n;
GRANT ALL ON LARGE OBJECT 101, 102 TO :"owner" WITH GRANT OPTION;
ALTER LARGE OBJECT 103 OWNER TO :"owner";
CREATE PUBLICATION none;
CREATE PUBLICATION of_parts FOR TABLE parted WITH (publish_via_partition_root = true);
\if :v15
CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA more WITH (publish = 'insert, truncate');
CREATE VIEW as_caller WITH (security_invoker = on) AS SELECT 1 AS a;
CREATE TABLE nulls (a int REFERENCES keyed (id) ON DELETE SET NULL (a));
\endif
\if :v18
CREATE TABLE of_18 (a int, twice int GENERATED ALWAYS AS (a * 2) VIRTUAL, during daterange, CONSTRAINT "named;" NOT NULL a,
    CONSTRAINT not_enforced CHECK (a > 100) NOT ENFORCED, CONSTRAINT temporal PRIMARY KEY (a, during WITHOUT OVERLAPS));
INSERT INTO of_18 VALUES (1, DEFAULT, '[2026-01-01,2026-02-01)'), (1, DEFAULT, '[2026-02-01,2026-03-01)');
CREATE TABLE to_18 (a int, during daterange, CONSTRAINT fk FOREIGN KEY (a, PERIOD during) REFERENCES of_18 (a, PERIOD during));
ALTER TABLE to_18 ADD CONSTRAINT loose FOREIGN KEY (a) REFERENCES keyed (id) NOT ENFORCED;
ALTER TABLE to_18 ADD CONSTRAINT unproven NOT NULL a NOT VALID;
\endif

-- Rights of every kind, also on what is the server's own or an extension's.
ALTER DEFAULT PRIVILEGES IN SCHEMA more GRANT EXECUTE ON FUNCTIONS TO :"owner";
ALTER DEFAULT PRIVILEGES IN SCHEMA more GRANT USAGE ON TYPES TO :"owner" WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" GRANT ALL ON SCHEMAS TO PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" REVOKE ALL ON TABLES FROM :"owner";
REVOKE ALL ON FUNCTION public.similarity(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION public.similarity(text, text) TO :"owner";
REVOKE SELECT ON pg_catalog.pg_stats FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO :"owner";
GRANT USAGE ON LANGUAGE plother TO :"owner" WITH GRANT OPTION;
REVOKE USAGE ON LANGUAGE plother FROM PUBLIC;
GRANT USAGE ON TYPE own, short TO :"owner";
REVOKE USAGE ON TYPE hue FROM PUBLIC;
GRANT USAGE ON FOREIGN DATA WRAPPER wrapped TO :"owner";
GRANT USAGE ON FOREIGN SERVER "server;" TO :"owner" WITH GRANT OPTION;
GRANT SELECT ("$$", "%s") ON "line
break; -- Name: x; Type: TABLE DATA" TO :"owner";
GRANT ALL ON SEQUENCE "COPY" TO :"owner";
REVOKE ALL ON TABLE kept FROM CURRENT_USER;
\if :v15
-- A pg_dump of 15 and later writes this down as what differs from the rights that a server of 15 and later gives.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO :"owner";
\endif
ALTER SCHEMA more OWNER TO :"owner";
ALTER TYPE hue OWNER TO :"owner";
ALTER FUNCTION as_table() OWNER TO :"owner";
ALTER VIEW on_it OWNER TO :"owner";
GRANT SELECT ON on_table TO :"owner";
ALTER MATERIALIZED VIEW on_that OWNER TO :"owner";
ALTER SEQUENCE "COPY" OWNER TO :"owner";
ALTER OPERATOR <<< (own, own) OWNER TO :"owner";
ALTER TEXT SEARCH CONFIGURATION own_words OWNER TO :"owner";
ALTER FOREIGN TABLE afar OWNER TO :"owner";

-- Comments.
COMMENT ON SCHEMA more IS '\.';
COMMENT ON TYPE own IS E'\\.\n\\.\n';
COMMENT ON DOMAIN short IS ';';
COMMENT ON CONSTRAINT "not;'" ON DOMAIN short IS 'of a domain';
COMMENT ON OPERATOR <<< (own, own) IS '<<<';
COMMENT ON OPERATOR CLASS own_class USING btree IS 'class';
COMMENT ON OPERATOR FAMILY own_family USING btree IS 'family';
COMMENT ON CAST (own AS text) IS 'cast';
COMMENT ON LANGUAGE plother IS 'language';
COMMENT ON TRANSFORM FOR own LANGUAGE plother IS 'transform';
COMMENT ON ACCESS METHOD tree IS 'method';
COMMENT ON COLLATION "C; \" IS 'collation';
COMMENT ON SERVER "server;" IS 'server';
COMMENT ON PUBLICATION none IS 'publication';
COMMENT ON STATISTICS kept_values IS 'statistics';
COMMENT ON EVENT TRIGGER watching IS 'event; trigger';
COMMENT ON POLICY own ON public.items IS 'policy';
COMMENT ON AGGREGATE public.joined(text) IS 'aggregate';
COMMENT ON TEXT SEARCH PARSER words IS 'parser';
COMMENT ON VIEW "from" IS 'COPY "COPY" FROM stdin;';
COMMENT ON COLUMN "from"."stdin" IS E'line\n\\.\n';
COMMENT ON LARGE OBJECT 101 IS E'\\.\n';
COMMENT ON SCHEMA public IS 'a; comment';
