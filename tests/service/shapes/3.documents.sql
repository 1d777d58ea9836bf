SELECT i.id, jsonb_build_object(
    'item_id', i.id, 'ticket', i.ticket, 'name', t.title, 'text', t.body, 'language', t.language,
    'state', i.state, 'priority', i.priority, 'labels', i.labels,
    'created_at', to_char(i.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
)::text
FROM items AS i JOIN item_texts AS t ON t.item_id = i.id AND t.language = 'en'
WHERE i.id > %ABOVE% ORDER BY i.id LIMIT %LIMIT%
