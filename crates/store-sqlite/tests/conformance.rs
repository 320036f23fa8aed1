//! The suite that every store must pass, on files.

mod files;

use files::Files;

ff_store::conformance_tests!(Files);
