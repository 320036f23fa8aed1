//! Windows: the ready queue and the agenda, read in order and in parts.

use ff_core::agenda::{AgendaEntry, AgendaKey, Subject};
use ff_core::class::Class;
use ff_core::execution::{Execution, State};
use ff_core::key::Ask;
use ff_core::ready::Place;
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, LaneName, Ms};

use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, samples};

type Entries = Vec<(Place, ExecutionId)>;

const FRONT: Place = Place { rank: i64::MIN, number: 0 };

fn class() -> Class {
    samples::execution(ExecutionId(uuid::Uuid::nil())).spec.class()
}

/// One read of the ready queue, which must be coherent in itself.
async fn read_ready(
    stand: &Stand,
    lane: &LaneName,
    class: &Class,
    after: Place,
    limit: usize,
) -> Result<Entries, String> {
    let ask = Ask::Ready { lane: lane.clone(), class: class.clone(), after, limit };
    let answer = stand.ask(stand.last(), ask).await?;
    let Answer::Ready { lane: l, class: c, limit: told, entries, executions } = answer else {
        return Err(format!("a ready window was asked for, the answer was {answer:?}"));
    };
    ensure_eq!((&l, &c, told), (lane, class, limit), "what the window is about");
    ensure!(entries.len() <= limit, "{} entries came where at most {limit} may", entries.len());
    let mut ids: Vec<ExecutionId> = entries.iter().map(|(_, id)| *id).collect();
    let mut with: Vec<ExecutionId> = executions.iter().map(|it| it.id).collect();
    ids.sort();
    with.sort();
    ensure_eq!(with, ids, "the executions that come with a window");
    Ok(entries)
}

/// Reads the whole queue in parts.
async fn read_all_ready(stand: &Stand, limit: usize) -> Result<Entries, String> {
    let (mut all, mut after) = (Entries::new(), FRONT);
    loop {
        let part = read_ready(stand, &LaneName::default(), &class(), after, limit).await?;
        let Some((last, _)) = part.last() else { return Ok(all) };
        ensure!(*last > after, "a part after {after:?} ends at {last:?}");
        after = *last;
        all.extend(part);
    }
}

async fn put_ready(stand: &mut Stand, places: &[(i64, u64)]) -> Result<Entries, String> {
    let partition = stand.last();
    let mut want = Entries::new();
    for (n, (rank, number)) in places.iter().enumerate() {
        // Ids run against the order of the queue, so that an order by id is noticed.
        let id = samples::id(stand.partitions, partition, 1_000 - n as u64);
        stand.desk(partition).put_execution(samples::ready(id, *rank, *number), START);
        want.push((Place { rank: *rank, number: *number }, id));
    }
    stand.flush(partition).await?;
    want.sort();
    Ok(want)
}

pub async fn ready_entries_come_in_order_and_in_pages(stand: &mut Stand) -> Check {
    // Ranks with ties, numbers against the ranks.
    let places: Vec<(i64, u64)> = (0..40).map(|n| (START + (n % 7) as i64, 100 - n)).collect();
    let want = put_ready(stand, &places).await?;
    for limit in [1, 2, 3, 7, 39, 40, 41, 1_000] {
        ensure_eq!(read_all_ready(stand, limit).await?, want, "the queue in parts of {limit}");
    }
    for (at, (place, _)) in want.iter().enumerate() {
        let got = read_ready(stand, &LaneName::default(), &class(), *place, 3).await?;
        let end = (at + 4).min(want.len());
        ensure_eq!(got, want[at + 1..end], "the three entries after {place:?}");
        // A place that no entry has is as good as any.
        let between = Place { rank: place.rank, number: place.number - 1 };
        let got = read_ready(stand, &LaneName::default(), &class(), between, 1).await?;
        ensure_eq!(got, want[at..=at], "the entry after {between:?}");
    }
    stand.same().await
}

pub async fn ready_entries_of_other_lanes_and_classes_stay_out(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut queues = Vec::new();
    let mut n = 0;
    for lane in ["default", "Default", "default ", "other"] {
        for (namespace, kind, words) in [
            ("default", "task", &[][..]),
            ("default", "Task", &[][..]),
            ("default", "task", &["eu"][..]),
            ("default", "task", &["eu", "gpu"][..]),
            ("acme", "task", &[][..]),
        ] {
            let mut entries = Entries::new();
            for _ in 0..3 {
                n += 1;
                let id = samples::id(stand.partitions, partition, n);
                let mut it = samples::ready(id, START, n);
                let mut spec = (*it.spec).clone();
                (spec.lane, spec.namespace) = (samples::lane_name(lane), samples::namespace(namespace));
                (spec.kind, spec.capabilities) = (samples::kind(kind), samples::capabilities(words));
                it.spec = spec.into();
                entries.push((Place { rank: START, number: n }, id));
                queues.push((it.spec.lane.clone(), it.spec.class(), entries.clone()));
                stand.desk(partition).put_execution(it, START);
            }
        }
    }
    stand.flush(partition).await?;
    for (lane, class, want) in queues.into_iter().skip(2).step_by(3) {
        let got = read_ready(stand, &lane, &class, FRONT, 100).await?;
        ensure_eq!(got, want, "the queue of {lane:?} and {class}");
    }
    let nobody = samples::lane_name("nobody");
    ensure_eq!(read_ready(stand, &nobody, &class(), FRONT, 100).await?, vec![], "an empty queue");
    stand.same().await
}

pub async fn ready_ranks_may_be_negative_and_extreme(stand: &mut Stand) -> Check {
    let ranks = [i64::MIN + 1, -START, -256, -2, -1, 0, 1, 2, 255, START, i64::MAX - 1, i64::MAX];
    let numbers = [1, 2, 9, 10, 100, 1 << 53, (1 << 53) + 1, 1 << 61];
    let places: Vec<_> = ranks.iter().flat_map(|rank| numbers.map(|number| (*rank, number))).collect();
    let want = put_ready(stand, &places).await?;
    for limit in [5, 1_000] {
        ensure_eq!(read_all_ready(stand, limit).await?, want, "the queue in parts of {limit}");
    }
    stand.same().await
}

pub async fn ready_entries_move_and_go(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut want = put_ready(stand, &[(5, 1), (5, 2), (6, 3), (7, 4)]).await?;
    // The first moves to the end, the second is claimed.
    let (first, second) = (want[0].1, want[1].1);
    stand.desk(partition).put_execution(samples::ready(first, 9, 1), START);
    let instance = samples::instance(stand.partitions, partition, 1);
    let active = samples::with_state(samples::execution(second), samples::states(instance)[2].clone());
    stand.desk(partition).put_execution(active, START);
    stand.flush(partition).await?;
    want.drain(..2);
    want.push((Place { rank: 9, number: 1 }, first));
    ensure_eq!(read_all_ready(stand, 2).await?, want, "the queue after changes");
    // One takes a place that another leaves in the same commit.
    stand.desk(partition).put_execution(samples::delayed(want[0].1, START + 5), START);
    stand.desk(partition).put_execution(samples::ready(second, 6, 3), START);
    stand.flush(partition).await?;
    want[0].1 = second;
    ensure_eq!(read_all_ready(stand, 2).await?, want, "the queue after a swap");
    stand.same().await
}

// ---- agenda ------------------------------------------------------------------------------------------

async fn read_agenda(stand: &Stand, after: Ms, limit: usize) -> Result<(Vec<AgendaEntry>, Ms), String> {
    let answer = stand.ask(stand.last(), Ask::Agenda { after, limit }).await?;
    let Answer::Agenda { mut entries, reached } = answer else {
        return Err(format!("the agenda was asked for, the answer was {answer:?}"));
    };
    let dues: Vec<Ms> = entries.iter().map(|entry| entry.key.due).collect();
    ensure!(dues.is_sorted(), "the agenda comes in the order {dues:?}");
    if let (Some(first), Some(last)) = (dues.first(), dues.last()) {
        ensure!(*first > after, "an entry due at {first} came after {after}");
        ensure!(reached == Ms::MAX || reached == *last, "{last} is the last, {reached} was reached");
    }
    ensure!(reached > after, "nothing was reached after {after}");
    ensure!(reached == Ms::MAX || entries.len() >= limit, "{} of {limit} came", entries.len());
    // The order within one millisecond is each store's own business.
    entries.sort_by_key(|entry| entry.key);
    Ok((entries, reached))
}

async fn read_whole_agenda(stand: &Stand, limit: usize) -> Result<Vec<AgendaEntry>, String> {
    let (mut all, mut after) = (Vec::new(), Ms::MIN);
    while after != Ms::MAX {
        let (part, reached) = read_agenda(stand, after, limit).await?;
        all.extend(part);
        after = reached;
    }
    Ok(all)
}

async fn put_timers(stand: &mut Stand, dues: &[Ms]) -> Result<Vec<AgendaEntry>, String> {
    let partition = stand.last();
    let mut want = Vec::new();
    for (n, due) in dues.iter().enumerate() {
        let id = samples::id(stand.partitions, partition, 1_000 - n as u64);
        stand.desk(partition).put_execution(samples::delayed(id, *due), START);
        want.push(timer(*due, id));
    }
    stand.flush(partition).await?;
    want.sort_by_key(|entry| entry.key);
    Ok(want)
}

fn timer(due: Ms, id: ExecutionId) -> AgendaEntry {
    AgendaEntry { key: AgendaKey { due, subject: Subject::Timer(id) }, message: None }
}

pub async fn the_agenda_comes_in_order_and_in_pages(stand: &mut Stand) -> Check {
    let (entries, reached) = read_agenda(stand, Ms::MIN, 10).await?;
    ensure_eq!((entries, reached), (vec![], Ms::MAX), "the agenda of a fresh partition");
    let dues: Vec<Ms> = (0..30).map(|n| START + (n * 17) % 30).collect();
    let mut want = put_timers(stand, &dues).await?;
    // Entries of every kind stand in one order.
    let partition = stand.last();
    let worker = samples::worker(samples::instance(stand.partitions, partition, 1), 1);
    want.extend(worker.agenda().map(|key| AgendaEntry { key, message: None }));
    stand.desk(partition).put_worker(worker);
    stand.desk(partition).sweep_by(START + 4);
    want.push(AgendaEntry { key: AgendaKey { due: START + 4, subject: Subject::Sweep }, message: None });
    stand.flush(partition).await?;
    want.sort_by_key(|entry| entry.key);
    for limit in [1, 2, 7, 29, 30, 1_000] {
        ensure_eq!(read_whole_agenda(stand, limit).await?, want, "the agenda in parts of {limit}");
    }
    let late: Vec<_> = want.iter().filter(|entry| entry.key.due > START + 10).cloned().collect();
    ensure_eq!(read_agenda(stand, START + 10, 1_000).await?.0, late, "the agenda after a time");
    stand.same().await
}

pub async fn the_agenda_never_splits_a_millisecond(stand: &mut Stand) -> Check {
    // Due times with 1, 5, 1, 9 and 2 entries.
    let dues: Vec<Ms> = [(1, 1), (2, 5), (3, 1), (5, 9), (8, 2)]
        .iter()
        .flat_map(|(at, times)| vec![START + at; *times])
        .collect();
    let want = put_timers(stand, &dues).await?;
    for limit in 1..=want.len() + 1 {
        let (entries, reached) = read_agenda(stand, Ms::MIN, limit).await?;
        for entry in &want {
            let due = entry.key.due;
            let split = due <= reached && !entries.contains(entry);
            ensure!(!split, "with a limit of {limit}, {reached} was reached without one due at {due}");
        }
        ensure_eq!(read_whole_agenda(stand, limit).await?, want, "the agenda in parts of {limit}");
    }
    Ok(())
}

pub async fn agenda_entries_move_and_go(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut want = put_timers(stand, &[START + 1, START + 2, START + 3, START + 4]).await?;
    let ids: Vec<ExecutionId> = want
        .iter()
        .filter_map(|entry| match entry.key.subject {
            Subject::Timer(id) => Some(id),
            _ => None,
        })
        .collect();
    // The first goes, the second moves to the front.
    stand.desk(partition).put_execution(samples::ready(ids[0], START, 1), START);
    let earlier: Execution = samples::with_state(samples::delayed(ids[1], START), moved(START - 7));
    stand.desk(partition).put_execution(earlier, START);
    stand.flush(partition).await?;
    want.remove(0);
    want[0] = timer(START - 7, ids[1]);
    ensure_eq!(read_whole_agenda(stand, 1).await?, want, "the agenda after changes");
    let (_, status) = stand.store.status().await.map_err(|error| error.to_string())?;
    ensure_eq!(status[partition.index()].next_due, Some(START - 7), "next due time");
    for id in &ids[1..] {
        stand.desk(partition).purge_execution(*id);
    }
    stand.flush(partition).await?;
    ensure_eq!(read_whole_agenda(stand, 1).await?, vec![], "the agenda after everything went");
    stand.same().await
}

fn moved(until: Ms) -> State {
    State::Delayed { until, reason: ff_core::state::Reason::RetryBackoff }
}

pub async fn agenda_times_may_be_extreme(stand: &mut Stand) -> Check {
    let dues = [Ms::MIN + 1, -START, -1, 0, 1, START, 1 << 53, (1 << 53) + 1, Ms::MAX - 1];
    let want = put_timers(stand, &dues).await?;
    for limit in [1, 100] {
        ensure_eq!(read_whole_agenda(stand, limit).await?, want, "the agenda in parts of {limit}");
    }
    stand.same().await
}
