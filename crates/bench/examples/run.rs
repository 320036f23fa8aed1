use clap::Parser;
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ff_bench::Args,
    #[arg(long, default_value = "sqlite")]
    store: String,
    #[arg(long)]
    json: bool,
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let mut a: Vec<String> = std::env::args().collect();
    if a.get(1).map(|s| s == "bench").unwrap_or(false) {
        a.remove(1);
    }
    let c = Cli::parse_from(a);
    ff_bench::main(c.args, ff_bench::Setting { store: c.store, json: c.json }).await
}
