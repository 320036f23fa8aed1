INSERT INTO links (partition, peer, sent, received) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET sent = excluded.sent, received = excluded.received
