SELECT due, kind, subject, message FROM agenda WHERE partition = ?1 AND due > ?2 ORDER BY due
