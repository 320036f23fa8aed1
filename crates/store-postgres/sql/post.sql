INSERT INTO flowfabric.inbox (partition, id, posted_at, kind, namespace, lane, key, options, content_type, input)
SELECT r.partition, r.id, r.posted_at, r.kind, r.namespace, r.lane, r.key, r.options, r.content_type, r.input
  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) WITH ORDINALITY
       AS r(partition, id, posted_at, kind, namespace, lane, key, options, content_type, input, place)
 ORDER BY r.place
