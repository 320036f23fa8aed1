//! The whole suite with the engine in the process of the test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background;
mod suite;

/// Where the suite gets its fabrics from.
mod ground {
    use std::sync::Arc;

    use ff_store::Store;
    use flowfabric::{Error, Fabric, Options};

    pub use flowfabric::testing::TestFabric;
    pub use flowfabric::{connect, connect_with};

    pub async fn on_store(store: Arc<dyn Store>, options: Options) -> Result<Fabric, Error> {
        Fabric::on_store(store, options).await
    }
}
