-- A service's tables: text and jsonb, keys, foreign keys, and a GIN index.
SET ROLE svc;
CREATE SCHEMA IF NOT EXISTS %SCHEMA%;
SET search_path = %SCHEMA%;
DROP TABLE IF EXISTS events, documents, projects, users CASCADE;
CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL, email text NOT NULL UNIQUE, created timestamptz NOT NULL);
CREATE TABLE projects (id serial PRIMARY KEY, owner int NOT NULL, title text NOT NULL, settings jsonb NOT NULL);
CREATE TABLE documents (id bigserial PRIMARY KEY, project int NOT NULL, author int NOT NULL, title text NOT NULL,
    body text NOT NULL, meta jsonb NOT NULL, created timestamptz NOT NULL);
CREATE TABLE events (id bigserial PRIMARY KEY, document bigint NOT NULL, actor int NOT NULL, kind text NOT NULL,
    at timestamptz NOT NULL, payload jsonb NOT NULL);
INSERT INTO users (name, email, created) SELECT 'User ' || n, 'user' || n || '@example.org', '2026-01-01'::timestamptz + n * '1s'::interval
    FROM generate_series(1, %USERS%) n;
INSERT INTO projects (owner, title, settings) SELECT 1 + n % %USERS%, 'Project ' || md5(n::text), jsonb_build_object('n', n, 'open', n % 2 = 0)
    FROM generate_series(1, %PROJECTS%) n;
INSERT INTO documents (project, author, title, body, meta, created)
    SELECT 1 + n % %PROJECTS%, 1 + n * 7 % %USERS%, 'Document ' || n,
        (SELECT string_agg(md5((n * 40 + k)::text), CASE k % 7 WHEN 0 THEN E'\n' ELSE ' ' END) FROM generate_series(1, 12 + n % 20) k),
        jsonb_build_object('tags', jsonb_build_array('t' || n % 97, 't' || n % 1009), 'language', n % 5, 'size', n),
        '2026-01-01'::timestamptz + n * '7s'::interval
    FROM generate_series(1, %DOCUMENTS%) n;
INSERT INTO events (document, actor, kind, at, payload)
    SELECT 1 + n * 31::bigint % %DOCUMENTS%, 1 + n % %USERS%, (ARRAY['read', 'write', 'share', 'comment'])[1 + n % 4],
        '2026-01-01'::timestamptz + n * '1s'::interval, jsonb_build_object('ip', '10.0.' || n % 256 || '.' || n % 91, 'took', n % 1777)
    FROM generate_series(1, %EVENTS%) n;
CREATE INDEX documents_project ON documents (project, created);
CREATE INDEX documents_meta ON documents USING gin (meta jsonb_path_ops);
CREATE INDEX events_document ON events (document);
CREATE INDEX events_actor_at ON events (actor, at);
ALTER TABLE projects ADD FOREIGN KEY (owner) REFERENCES users;
ALTER TABLE documents ADD FOREIGN KEY (project) REFERENCES projects, ADD FOREIGN KEY (author) REFERENCES users;
ALTER TABLE events ADD FOREIGN KEY (document) REFERENCES documents, ADD FOREIGN KEY (actor) REFERENCES users;
CREATE VIEW open_projects AS SELECT id, title FROM projects WHERE (settings ->> 'open')::boolean;
