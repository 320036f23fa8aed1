DELETE FROM parcels WHERE receiver = ?1 RETURNING body
