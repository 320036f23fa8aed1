DELETE FROM commits
 WHERE partition = ?1
   AND number IN (SELECT number FROM commits
                   WHERE partition = ?1 AND number <= ?2 AND at_ms < ?3
                   ORDER BY number LIMIT ?4)
