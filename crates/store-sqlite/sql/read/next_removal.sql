SELECT min(at) FROM (SELECT min(remove_at) AS at FROM ended WHERE partition = ?1 AND remove_at > ?2
                     UNION ALL
                     SELECT min(expires_at) FROM dedup WHERE partition = ?1 AND expires_at > ?2
                     UNION ALL
                     SELECT min(remove_at) FROM flows WHERE partition = ?1 AND remove_at > ?2)
