-- 1.14 → 1.15: a column, a table, rows changed, another view.
ALTER TABLE items ADD COLUMN priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9);
UPDATE items SET priority = (id % 10)::smallint, extra = extra || '{"migrated": "1.15"}';

CREATE TABLE comments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id bigint NOT NULL REFERENCES items (id) ON DELETE CASCADE,
    author text NOT NULL,
    text text NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX comments_item_idx ON comments (item_id);
INSERT INTO comments (item_id, author, text)
SELECT id, 'migration', 'kept from ' || title FROM items WHERE id % 5 = 0;

UPDATE settings SET value = value || '{"days": 60}' WHERE key = 'retention';
INSERT INTO settings VALUES ('comments', '{"allowed": true}');

DROP VIEW open_items;
CREATE VIEW open_items AS
SELECT i.id, i.ticket, i.title, i.priority, count(c.id) AS comments
FROM items AS i LEFT JOIN comments AS c ON c.item_id = i.id
WHERE i.state = 'open' GROUP BY i.id;
