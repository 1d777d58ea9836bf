INSERT INTO items (title, body, state, tags, extra)
SELECT
    'Item ' || md5(n::text || clock_timestamp()::text) || E' – tab\there, back\\slash',
    repeat(md5(random()::text), 8) || E'\nsecond line: naïve, 日本\n\\.\nlast',
    (ARRAY['open', 'late', 'done'])[1 + n % 3],
    ARRAY['tag' || n % 7, 'with space, and "quote"'],
    jsonb_build_object('n', n, 'ratio', 0.1, 'note', E'a\\b;c')
FROM generate_series(1, %ITEMS%) AS n
RETURNING id
