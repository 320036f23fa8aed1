//! What a program can rely on, wherever the engine of its fabric runs. Each root beside this folder runs all of it on a
//! ground of its own.

mod administering;
mod bulk;
mod durable_steps;
mod endings;
mod events;
mod every_store;
mod flows;
mod hello;
mod leases;
mod operating;
mod output;
mod sharing;
mod submitting;
mod suspending;
