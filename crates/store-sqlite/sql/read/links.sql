SELECT peer, sent, received FROM links WHERE partition = ?1 ORDER BY peer
