INSERT INTO executions
       (id, partition, namespace, lane, kind, created_at, state, reason, changed_at, holder, flow, member, spec, live)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
