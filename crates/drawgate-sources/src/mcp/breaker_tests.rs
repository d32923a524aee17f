use super::*;

const PAUSE: Duration = Duration::from_secs(30);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

struct Bench {
    breaker: Breaker,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { breaker: Breaker::new(PAUSE), start: Instant::now() }
    }

    fn admit(&self, at: u64) -> Result<Admission<'_>, String> {
        self.admit_as("ann/1", at)
    }

    fn admit_as<'a>(&'a self, client: &'a str, at: u64) -> Result<Admission<'a>, String> {
        let now = self.start + seconds(at);
        self.breaker
            .admit_at(now, client, &(now + seconds(60)).into())
            .map_err(|error| error.to_string())
    }

    fn run_out(&self, client: &str, at: u64) {
        let slow = SourceError::Timeout("slow".to_owned());
        self.end(self.admit_as(client, at).unwrap(), at, Some(&slow));
    }

    fn end(&self, mut call: Admission<'_>, at: u64, error: Option<&SourceError>) {
        let verdict = call.verdict(error);
        call.settled = true;
        self.breaker.settle(&call, verdict, self.start + seconds(at));
    }

    fn fail(&self, at: u64) {
        self.end(self.admit(at).unwrap(), at, Some(&SourceError::Protocol("bad".to_owned())));
    }

    fn opened() -> Self {
        let bench = Self::new();
        (0..5).for_each(|at| bench.fail(at));
        bench
    }
}

#[test]
fn five_failures_in_a_row_open_it() {
    let bench = Bench::new();
    (0..4).for_each(|at| bench.fail(at));
    bench.end(bench.admit(4).unwrap(), 4, None);
    (5..9).for_each(|at| bench.fail(at));
    assert!(bench.breaker.open_for().is_none(), "a success in between starts the count anew");
    bench.fail(9);
    let refused = bench.admit(10).unwrap_err();
    assert_eq!(refused, "the server failed 5 calls in a row; it is not called for another 30 s");
}

#[test]
fn one_call_tries_and_its_outcome_decides() {
    let bench = Bench::opened();
    assert!(bench.admit(33).is_err());
    let trial = bench.admit(34).unwrap();
    let refused = bench.admit(34).unwrap_err();
    assert_eq!(refused, "the server failed 5 calls in a row; one call tries it at the moment");
    bench.end(trial, 35, Some(&SourceError::Timeout("slow".to_owned())));
    assert!(bench.admit(64).is_err(), "a failed trial keeps it open");
    bench.end(bench.admit(65).unwrap(), 65, None);
    assert!(bench.breaker.open_for().is_none());
    let (a, b) = (bench.admit(66).unwrap(), bench.admit(66).unwrap());
    bench.end(a, 66, None);
    bench.end(b, 66, None);
}

#[test]
fn a_cancelled_trial_lets_the_next_call_try() {
    let bench = Bench::opened();
    drop(bench.admit(40).unwrap());
    assert!(bench.admit(41).is_ok());
}

#[test]
fn what_is_not_the_servers_fault_does_not_count() {
    let bench = Bench::new();
    let tool = SourceError::Failed { message: "no such file".to_owned(), details: None };
    (0..20).for_each(|at| bench.end(bench.admit(at).unwrap(), at, Some(&tool)));
    let now = bench.start + seconds(20);
    for _ in 0..20 {
        let hurried = bench.breaker.admit_at(now, "ann", &(now + seconds(4)).into()).unwrap();
        bench.end(hurried, 24, Some(&SourceError::Timeout("slow".to_owned())));
    }
    (25..45).for_each(|at| drop(bench.admit(at).unwrap()));
    assert!(bench.admit(45).is_ok());
}

#[test]
fn one_crash_counts_once_however_many_calls_it_ends() {
    let crashed = SourceError::lost("the server exited");
    let broken = SourceError::Protocol("the message is too long".to_owned());
    for error in [crashed, broken] {
        let bench = Bench::new();
        for round in 0..5 {
            let calls: Vec<_> = (0..64).map(|_| bench.admit(round * 10).unwrap()).collect();
            for call in calls {
                bench.end(call, round * 10 + 1, Some(&error));
            }
            assert_eq!(bench.breaker.open_for().is_some(), round == 4, "round {round}, {error}");
        }
    }
}

#[test]
fn slow_calls_of_one_principal_do_not_cut_off_the_others() {
    let bench = Bench::new();
    (0..20).for_each(|at| bench.run_out(if at % 2 == 0 { "ann/1" } else { "ann/2" }, at));
    assert!(bench.breaker.open_for().is_none());
    bench.run_out("bob", 20);
    bench.run_out("bob", 21);
    assert!(bench.breaker.open_for().is_none());
    bench.run_out("eve/1", 22);
    assert!(bench.breaker.open_for().is_some(), "three can't get an answer");
    // A trial by one that had its share says nothing, so that the next may try.
    bench.run_out("ann/1", 60);
    bench.end(bench.admit_as("bob", 60).unwrap(), 60, None);
    assert!(bench.breaker.open_for().is_none());
}

#[test]
fn a_server_that_is_lost_is_noticed_by_one_client_alone() {
    let bench = Bench::new();
    (0..2).for_each(|at| bench.run_out("ann", at));
    let gone = SourceError::lost("the server exited");
    (2..5).for_each(|at| bench.end(bench.admit(at).unwrap(), at, Some(&gone)));
    assert!(bench.breaker.open_for().is_some());
}

#[test]
fn calls_that_were_not_sent_say_nothing() {
    let bench = Bench::new();
    let down = SourceError::unreachable("connection refused");
    (0..20).for_each(|at| bench.end(bench.admit(at).unwrap(), at, Some(&down)));
    assert!(bench.breaker.open_for().is_none());
}

#[test]
fn a_trial_that_hangs_does_not_keep_others_from_trying() {
    let bench = Bench::opened();
    let hangs = bench.admit(40).unwrap();
    assert!(bench.admit(69).is_err());
    let second = bench.admit(70).unwrap();
    drop(hangs);
    assert!(bench.admit(71).is_err(), "the end of the first is not that of the second");
    bench.end(second, 72, None);
    assert!(bench.breaker.open_for().is_none());
}

#[test]
fn a_late_success_from_before_does_not_close_it() {
    let bench = Bench::new();
    let early = bench.admit(0).unwrap();
    (1..6).for_each(|at| bench.fail(at));
    bench.end(early, 7, None);
    assert!(bench.admit(8).is_err());
}
