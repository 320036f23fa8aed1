//! The suite that every store must pass, on PostgreSQL and once more through PgBouncer.

mod databases;

mod direct {
    use super::databases::Databases;
    ff_store::conformance_tests!(Databases { pooled: false });
}

mod through_pgbouncer {
    use super::databases::Databases;
    ff_store::conformance_tests!(Databases { pooled: true });
}
