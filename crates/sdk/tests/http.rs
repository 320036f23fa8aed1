//! The whole suite through a server: the engine is behind HTTP, on a loopback address.
//!
//! The server has a thread of its own, as it would have a process of its own: tests that block their runtime do not
//! block it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background;
mod suite;

/// Where the suite gets its fabrics from.
mod ground {
    use std::ops::Deref;
    use std::sync::Arc;

    use ff_engine::Engine;
    use ff_server::app::App;
    use ff_store::{Clock, Store, SystemClock};
    use flowfabric::testing::TestServer;
    use flowfabric::{Error, Fabric, Options};
    use tokio::sync::oneshot;

    /// A fabric whose clock the test moves, behind a server.
    pub struct TestFabric(flowfabric::testing::TestFabric);

    impl Deref for TestFabric {
        type Target = flowfabric::testing::TestFabric;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    impl TestFabric {
        pub async fn new() -> TestFabric {
            TestFabric::with(Options::new()).await.unwrap()
        }

        pub async fn with(options: Options) -> Result<TestFabric, Error> {
            let start = async |engine: Engine, clock: Arc<dyn Clock>| {
                let (url, app) = serve(engine, clock).await;
                let waiting = move || app.live.long_polls.load(std::sync::atomic::Ordering::SeqCst);
                TestServer { url, waiting: Box::new(waiting) }
            };
            flowfabric::testing::TestFabric::behind(options, start).await.map(TestFabric)
        }
    }

    pub async fn connect(url: &str) -> Result<Fabric, Error> {
        connect_with(url, Options::new()).await
    }

    pub async fn connect_with(url: &str, options: Options) -> Result<Fabric, Error> {
        behind(flowfabric::connect_with(url, options.clone()).await?, options).await
    }

    pub async fn on_store(store: Arc<dyn Store>, options: Options) -> Result<Fabric, Error> {
        behind(Fabric::on_store(store, options.clone()).await?, options).await
    }

    /// The same fabric through a server.
    async fn behind(local: Fabric, options: Options) -> Result<Fabric, Error> {
        let (url, _) = serve(local.engine().unwrap().clone(), Arc::new(SystemClock)).await;
        flowfabric::connect_with(&url, options).await
    }

    /// Starts a server that runs until the test's process ends; returns where it is.
    async fn serve(engine: Engine, clock: Arc<dyn Clock>) -> (String, Arc<App>) {
        let (started, address) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let address = "127.0.0.1:0".parse().unwrap();
                let config = ff_server::Config { address, clock, ..ff_server::Config::default() };
                let server = ff_server::start(engine, config).await.unwrap();
                let _ = started.send((format!("http://{}", server.address), server.app().clone()));
                std::future::pending::<()>().await;
            });
        });
        address.await.unwrap()
    }
}
