DELETE FROM ended WHERE partition = ?1 AND remove_at = ?2 AND execution = ?3
