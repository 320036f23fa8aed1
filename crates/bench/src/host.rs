//! A process that serves a store over HTTP with webhooks and bulk operations, as `flowfabric serve` does, and tells what
//! that costs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ff_server::{Config, webhooks};
use serde::{Deserialize, Serialize};

use crate::bed::{Bed, engine_of};
use crate::child::{self, Child, Part};
use crate::figures::{cpu_ms_of_family, rss_mib};
use crate::ground::Cost;

/// What a server has done so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    pub cost: Cost,
    pub cpu_ms: u64,
    pub rss_mib: f64,
}

/// In the child: serves until the parent has gone; says its address first.
pub async fn serve(place: &str) -> anyhow::Result<()> {
    let bed = Bed::on(place).await?;
    let engine = engine_of(&bed.fabric)?.clone();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = ff_server::start(engine.clone(), Config { address, ..Config::default() }).await?;
    let deliveries = webhooks::start(engine.clone(), webhooks::Options::default());
    let bulks = engine.run_bulks();
    child::say(&format!("http://{}", server.address))?;
    while child::told().await?.is_some() {
        child::say(&told(&bed)?)?;
    }
    server.stop().await;
    deliveries.stop().await;
    bulks.stop().await;
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    child::say(&told(&bed)?)
}

fn told(bed: &Bed) -> anyhow::Result<Told> {
    let cost = bed.cost()?.context("a store that counts")?;
    Ok(Told { cost, cpu_ms: cpu_ms_of_family(std::process::id()).unwrap_or(0), rss_mib: rss_mib() })
}

/// In the parent: such a process.
#[derive(Debug)]
pub struct Host {
    child: Mutex<Child>,
    pub url: String,
    /// From its start until it could be called.
    pub ready_in: Duration,
}

impl Host {
    pub async fn start(place: &str) -> anyhow::Result<Host> {
        let started = Instant::now();
        let child = Child::start(Part::Host, place, Vec::new()).await?;
        let url = serde_json::from_str(&child.ready).context("the address of a server")?;
        Ok(Host { child: Mutex::new(child), url, ready_in: started.elapsed() })
    }

    pub fn told(&self) -> anyhow::Result<Told> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).ask()
    }

    pub async fn end(self) -> anyhow::Result<Told> {
        self.child.into_inner().unwrap_or_else(PoisonError::into_inner).end().await
    }
}
