//! The memory store passes the suite.

ff_store::conformance_tests!(ff_store::conformance::MemoryFactory);
