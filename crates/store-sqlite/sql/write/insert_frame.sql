INSERT INTO frames (execution, attempt, number, at, kind, mode, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
