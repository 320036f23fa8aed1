DELETE FROM parcels WHERE at <= ?1
