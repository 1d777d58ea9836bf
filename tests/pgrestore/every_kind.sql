-- One of every kind of object that a database can hold, with names and texts that are traps for whoever reads a dump line by
-- line. Run by psql as a superuser; :owner is a role.
SELECT :SERVER_VERSION_NUM >= 140000 AS v14, :SERVER_VERSION_NUM >= 150000 AS v15, :SERVER_VERSION_NUM >= 180000 AS v18
\gset
SET check_function_bodies = off;
SET client_min_messages = warning;
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gist;
COMMENT ON EXTENSION pg_trgm IS 'not its own; COPY public.q (a) FROM stdin;';
CREATE SCHEMA other AUTHORIZATION :"owner";
CREATE SCHEMA "Odd ""schema""; --";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA other GRANT SELECT ON TABLES TO PUBLIC;

-- Types.
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', E'back\\slash');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE floats AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE DOMAIN positive AS int DEFAULT 1 CHECK (VALUE > 0);
CREATE COLLATION other.plain FROM "C";

-- Functions, with every kind of body.
CREATE FUNCTION trap() RETURNS text LANGUAGE plpgsql AS $_$
BEGIN
-- Name: items; Type: TABLE DATA; Schema: public; Owner: -
COPY public.items (a) FROM stdin;
1
\.
\connect postgres
$$ ; $x$ '
RETURN 'END;';
END $_$;
CREATE FUNCTION classic(a text DEFAULT E'\\''; BEGIN ATOMIC') RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''x;'' || $1';
\if :v14
CREATE FUNCTION atomic(a int) RETURNS int LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT CASE WHEN a > 0 THEN CASE a WHEN 1 THEN 2 ELSE 3 END ELSE 4 END;
    SELECT CASE WHEN a > 0 THEN 1 END;
END;
CREATE PROCEDURE "case"() LANGUAGE sql BEGIN ATOMIC SELECT 1 AS "end"; SELECT 2; END;
\else
CREATE FUNCTION atomic(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN a > 0 THEN 1 END';
\endif
CREATE AGGREGATE joined(text) (SFUNC = textcat, STYPE = text, INITCOND = ';');
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq);
CREATE OPERATOR CLASS by_text FOR TYPE text USING hash AS OPERATOR 1 ===, FUNCTION 1 hashtext(text);
CREATE CAST (pair AS text) WITH INOUT AS ASSIGNMENT;
CREATE TEXT SEARCH DICTIONARY words (TEMPLATE = simple, STOPWORDS = english);
CREATE TEXT SEARCH CONFIGURATION search (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION search ALTER MAPPING FOR word WITH words;
CREATE CONVERSION other.latin FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;
CREATE ACCESS METHOD heap_like TYPE TABLE HANDLER heap_tableam_handler;

-- Tables.
CREATE TABLE items (
    id bigint GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 3) PRIMARY KEY,
    name text NOT NULL COLLATE other.plain,
    gone int,
    mood mood DEFAULT 'sad',
    price positive NOT NULL,
    twice int GENERATED ALWAYS AS (price * 2) STORED,
    body jsonb,
    raw bytea,
    tags text[],
    pair pair,
    span floats,
    at timestamptz,
    long text
);
INSERT INTO items (name, mood, price, body, raw, tags, pair, span, at, long)
SELECT E'line\n\\.\n\\N\ttab ' || n, 'it''s ok', n, jsonb_build_object('n', n, 't', E'\\.\n'), decode(md5(n::text), 'hex'),
    ARRAY[E'a,"b\\', NULL, n::text], ROW(n, 'x,''"\')::pair, floats(n, n + 0.5), timestamptz '2026-01-01 00:00:00+00' + n * interval '1 s',
    repeat(md5(n::text), 20)
FROM generate_series(1, 3000) n;
ALTER TABLE items DROP COLUMN gone;
ALTER TABLE items ADD CONSTRAINT "un;iq" UNIQUE (name) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE items ADD CONSTRAINT no_overlap EXCLUDE USING gist (price WITH =, span WITH &&);
ALTER TABLE items ALTER COLUMN name SET STATISTICS 77;
ALTER TABLE items ALTER COLUMN long SET STORAGE EXTERNAL;
CREATE INDEX items_lower ON items (lower(name)) INCLUDE (mood) WITH (fillfactor = 50) WHERE price > 10;
CREATE INDEX items_trgm ON items USING gin (name gin_trgm_ops);
CREATE INDEX items_body ON items USING gin (body jsonb_path_ops);
CREATE INDEX items_at ON items USING brin (at);
CREATE INDEX items_price ON items USING hash (price);
CREATE INDEX items_own ON items (atomic(price::int));
\if :v15
CREATE UNIQUE INDEX "COPY t FROM stdin;" ON items (price) NULLS NOT DISTINCT;
\else
CREATE UNIQUE INDEX "COPY t FROM stdin;" ON items (price);
\endif
ALTER TABLE items REPLICA IDENTITY USING INDEX "COPY t FROM stdin;";
ALTER TABLE items CLUSTER ON items_pkey;
COMMENT ON INDEX items_lower IS E'\n--\n-- PostgreSQL database dump complete\n--\n';
COMMENT ON CONSTRAINT "un;iq" ON items IS 'two'';';
COMMENT ON COLUMN items.name IS E'CREATE INDEX i ON public.items USING btree (name);\n\\unrestrict x\n';
CREATE STATISTICS items_stats (ndistinct, dependencies) ON name, mood FROM items;

CREATE TABLE "a ""b"";
COPY public.items (id) FROM stdin;
\." ("d'e; $$" int, "COPY" text, "ü %s \" text);
INSERT INTO "a ""b"";
COPY public.items (id) FROM stdin;
\." SELECT n, 'x', 'y' FROM generate_series(1, 10) n;
CREATE TABLE "Odd ""schema""; --"."select" ("from" int PRIMARY KEY, "stdin" int REFERENCES items (id));
INSERT INTO "Odd ""schema""; --"."select" VALUES (1, 5), (2, NULL);
CREATE TABLE nothing ();
INSERT INTO nothing DEFAULT VALUES;
INSERT INTO nothing DEFAULT VALUES;
CREATE TABLE empty (a int, b text);
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
INSERT INTO unlogged SELECT generate_series(1, 20);
CREATE TABLE of_method (a int) USING heap_like;
INSERT INTO of_method VALUES (1), (2);
CREATE TABLE typed OF pair (a PRIMARY KEY);
INSERT INTO typed VALUES (1, 'x');

-- A check that looks at another table, whose rows come before in the dump.
CREATE TABLE a_allowed (n int);
INSERT INTO a_allowed VALUES (1), (2);
CREATE FUNCTION is_allowed(wanted int) RETURNS boolean LANGUAGE sql STABLE
    AS 'SELECT EXISTS (SELECT FROM public.a_allowed WHERE n = wanted)';
CREATE TABLE b_checked (n int CHECK (is_allowed(n)));
INSERT INTO b_checked VALUES (2), (1);

-- Inheritance, and partitions by every strategy.
CREATE TABLE parent (n int, CONSTRAINT small CHECK (n < 2) NO INHERIT NOT VALID);
CREATE TABLE child (own text) INHERITS (parent);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (2, 'x'), (3, 'y');
CREATE TABLE by_range (n int NOT NULL, t text, PRIMARY KEY (n)) PARTITION BY RANGE (n);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE by_range_2 (t text, n int NOT NULL);
ALTER TABLE by_range ATTACH PARTITION by_range_2 DEFAULT;
INSERT INTO by_range SELECT n, 'x' || n FROM generate_series(1, 120) n;
CREATE INDEX by_range_t ON by_range (t);
CREATE INDEX only_root ON ONLY by_range (n, t);
CREATE TABLE by_list (l text, n int) PARTITION BY LIST (l);
CREATE TABLE by_list_a PARTITION OF by_list FOR VALUES IN ('a', NULL) PARTITION BY HASH (n);
CREATE TABLE by_list_a_0 PARTITION OF by_list_a FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_list_a_1 PARTITION OF by_list_a FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE by_list_rest PARTITION OF by_list DEFAULT;
INSERT INTO by_list SELECT (ARRAY['a', 'b', NULL])[1 + n % 3], n FROM generate_series(1, 90) n;

-- Foreign keys: to itself, in a circle, to and from partitions, and not validated.
ALTER TABLE items ADD COLUMN up bigint REFERENCES items (id) DEFERRABLE;
UPDATE items SET up = id - 3 WHERE id > 5;
CREATE TABLE ring_a (id int PRIMARY KEY, b int);
CREATE TABLE ring_b (id int PRIMARY KEY, a int REFERENCES ring_a ON DELETE CASCADE);
INSERT INTO ring_a SELECT n, n FROM generate_series(1, 50) n;
INSERT INTO ring_b SELECT n, 51 - n FROM generate_series(1, 50) n;
ALTER TABLE ring_a ADD CONSTRAINT to_b FOREIGN KEY (b) REFERENCES ring_b (id) MATCH FULL;
ALTER TABLE ring_a ADD CONSTRAINT to_range FOREIGN KEY (id) REFERENCES by_range (n) NOT VALID;
ALTER TABLE by_range ADD CONSTRAINT to_ring FOREIGN KEY (n) REFERENCES by_range (n);

-- Views, rules, triggers, row security, publications, statistics, event triggers, foreign data.
CREATE VIEW named AS SELECT name, E'\n\\.\nCOPY public.items (id) FROM stdin;\n' AS trap FROM items WITH CASCADED CHECK OPTION;
CREATE RECURSIVE VIEW numbers (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 3;
CREATE MATERIALIZED VIEW counted AS SELECT mood, count(*) AS n FROM items GROUP BY mood;
CREATE UNIQUE INDEX counted_mood ON counted (mood);
CREATE MATERIALIZED VIEW not_yet AS SELECT 1 AS one WITH NO DATA;
CREATE RULE protect AS ON DELETE TO items WHERE old.id < 5 DO INSTEAD (SELECT 1; SELECT ';');
CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER stop BEFORE INSERT ON empty FOR EACH ROW EXECUTE FUNCTION stop('a;''b');
CREATE TRIGGER stop_all BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION stop();
ALTER TABLE items DISABLE TRIGGER stop_all;
CREATE CONSTRAINT TRIGGER later AFTER UPDATE ON ring_a DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stop();
ALTER TABLE ring_a ENABLE ALWAYS TRIGGER later;
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
ALTER TABLE items FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON items AS RESTRICTIVE FOR SELECT TO :"owner" USING (name <> 'to x;');
CREATE POLICY by_everybody ON items USING (true) WITH CHECK (price > 0);
\if :v15
CREATE PUBLICATION a_few FOR TABLE items (id, name), ring_a WHERE (id > 5);
\else
CREATE PUBLICATION a_few FOR TABLE items, ring_a;
\endif
CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'insert');
CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', tg_tag; END $$;
CREATE EVENT TRIGGER watching ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE INDEX') EXECUTE FUNCTION watch();
CREATE FOREIGN DATA WRAPPER dummy;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER dummy OPTIONS (host 'a;b');
CREATE USER MAPPING FOR :"owner" SERVER elsewhere OPTIONS ("user" 'x''y');
CREATE FOREIGN TABLE far (a int OPTIONS (x 'y')) SERVER elsewhere;

-- Sequences, large objects, rights.
CREATE SEQUENCE odd AS smallint INCREMENT BY -2 MAXVALUE 100 START 99 CYCLE CACHE 3;
SELECT nextval('odd'), nextval('odd');
CREATE SEQUENCE owned OWNED BY empty.a;
SELECT setval('owned', 4711, false);
SELECT lo_from_bytea(4711, decode(repeat('00ff5c2e0a', 20000), 'hex'));
SELECT lo_from_bytea(4712, '');
ALTER LARGE OBJECT 4711 OWNER TO :"owner";
GRANT SELECT ON LARGE OBJECT 4711 TO PUBLIC;
COMMENT ON LARGE OBJECT 4712 IS 'empty; COMMIT;';
GRANT SELECT (name), UPDATE (name, mood) ON items TO :"owner" WITH GRANT OPTION;
GRANT USAGE ON SCHEMA "Odd ""schema""; --" TO PUBLIC;
REVOKE ALL ON FUNCTION trap() FROM PUBLIC;
ALTER TABLE empty OWNER TO :"owner";
