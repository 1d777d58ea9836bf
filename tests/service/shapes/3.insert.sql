WITH new AS (
    INSERT INTO items (state, extra, priority, labels)
    SELECT
        (ARRAY['open', 'late', 'done', 'archived'])[1 + n % 4]::item_state,
        jsonb_build_object('n', n, 'ratio', 0.1, 'note', E'a\\b;c'),
        (n % 10)::smallint,
        jsonb_build_array('tag' || n % 7, 'with space, and "quote"')
    FROM generate_series(1, %ITEMS%) AS n
    RETURNING id
), texts AS (
    INSERT INTO item_texts (item_id, title, body)
    SELECT
        id,
        'Item ' || md5(id::text || clock_timestamp()::text) || E' – tab\there, back\\slash',
        repeat(md5(random()::text), 8) || E'\nsecond line: naïve, 日本\n\\.\nlast'
    FROM new
)
SELECT id FROM new
