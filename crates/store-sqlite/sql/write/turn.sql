SELECT server, until FROM turns WHERE partition = ?1
