SELECT id, jsonb_build_object(
    'item_id', id, 'ticket', ticket, 'title', title, 'body', body, 'state', state, 'tags', tags,
    'created_at', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
)::text
FROM items WHERE id > %ABOVE% ORDER BY id LIMIT %LIMIT%
