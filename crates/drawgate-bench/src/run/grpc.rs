//! Packs and agents over gRPC beside a bare round trip, and a crowd of both.

use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use ssh_key::LineEnding;
use ssh_key::private::{Ed25519Keypair, PrivateKey};
use tempfile::TempDir;

use super::children::{self, Server};
use super::gateway::{Gateway, Program};
use super::paths::median;
use super::{CONCURRENCIES, Plan};
use crate::grpc::crowd::Crowd;
use crate::grpc::{AGENT, CAPABILITY, LATE_PACK, PACK};
use crate::load::Measured;

/// The crowd: so many packs with so many tools each, and so many agents.
const PACKS: usize = 100;
const TOOLS_EACH: usize = 10;
const AGENTS: usize = 100;

/// What lies between a caller and the echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Unary,
    Stream,
    Agent,
}

impl Way {
    const ALL: [Self; 3] = [Self::Unary, Self::Stream, Self::Agent];

    /// How the load names it.
    const fn option(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Stream => "stream",
            Self::Agent => "agent",
        }
    }

    /// How the table names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unary => "bare, unary",
            Self::Stream => "bare, stream",
            Self::Agent => "agent-gateway-pack",
        }
    }
}

/// One line of the table: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) way: Way,
    pub(crate) callers: usize,
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time per call of the gateway, or of the bare server
    pub(crate) cpu_us: Option<f64>,
}

/// All that was measured over gRPC.
#[derive(Debug, Serialize)]
pub(crate) struct Grpc {
    pub(crate) rows: Vec<Row>,
    pub(crate) crowd: Many,
}

impl Grpc {
    /// What a call from an agent to a pack costs, in units of a bare stream's.
    pub(super) fn ratio(&self) -> Option<f64> {
        let most = CONCURRENCIES.into_iter().max()?;
        let of =
            |way: Way| self.rows.iter().find(|row| row.way == way && row.callers == most)?.cpu_us;
        Some(of(Way::Agent)? / of(Way::Stream)?)
    }
}

/// Many packs, tools and agents at once.
#[derive(Debug, Serialize)]
pub(crate) struct Many {
    pub(crate) packs: usize,
    pub(crate) tools: usize,
    pub(crate) agents: usize,
    /// From the start of the packs' process until all of them were registered
    pub(crate) registered_ms: f64,
    #[serde(flatten)]
    pub(crate) crowd: Crowd,
    /// Resident memory of the gateway at the end
    pub(crate) resident_mib: f64,
}

/// Measures both.
pub(crate) async fn measure(program: &Program, plan: Plan) -> Result<Grpc> {
    let keys = Keys::new()?;
    Ok(Grpc {
        rows: round_trips(program, plan, &keys).await?,
        crowd: crowd(program, plan, &keys).await?,
    })
}

async fn round_trips(program: &Program, plan: Plan, keys: &Keys) -> Result<Vec<Row>> {
    let echo = Server::start(&["grpc-echo"]).await?;
    let most = CONCURRENCIES.into_iter().max().unwrap_or(1);
    let gateway = Gateway::start_for_peers(program, &keys.list(1, most)?).await?;
    let to = gateway.target().to.clone();
    let _pack = Server::start(&["grpc-packs", "--to", &to, "--key", &keys.path]).await?;
    let mut rows = Vec::new();
    for callers in CONCURRENCIES {
        let mut rounds: [Vec<Measured>; 3] = Default::default();
        for round in 0..plan.rounds {
            eprintln!("gRPC, {callers} callers, round {} of {}", round + 1, plan.rounds);
            for (way, measured) in Way::ALL.into_iter().zip(&mut rounds) {
                let (to, pid) = match way {
                    Way::Unary | Way::Stream => (echo.address(), echo.pid()?),
                    Way::Agent => (to.as_str(), gateway.pid()?),
                };
                let clients = callers.to_string();
                let load = ["--way", way.option(), "--clients", &clients];
                let arguments = arguments("grpc-load", &load, (to, keys), plan, pid);
                let load = children::role(&arguments, plan.milliseconds).await?;
                measured.push(children::check(load, callers)?);
            }
        }
        let both = Way::ALL.into_iter().zip(&rounds);
        rows.extend(both.map(|(way, rounds)| row(way, callers, rounds)));
    }
    gateway.stop().await?;
    Ok(rows)
}

async fn crowd(program: &Program, plan: Plan, keys: &Keys) -> Result<Many> {
    eprintln!("gRPC, {PACKS} packs, {} tools, {AGENTS} agents", PACKS * TOOLS_EACH);
    let gateway = Gateway::start_for_peers(program, &keys.list(PACKS, AGENTS)?).await?;
    let to = gateway.target().to.clone();
    let (packs, tools) = (PACKS.to_string(), TOOLS_EACH.to_string());
    let size = ["--packs", &packs, "--tools", &tools];
    let begin = Instant::now();
    let serving: Vec<&str> =
        ["grpc-packs", "--to", &to, "--key", &keys.path].into_iter().chain(size).collect();
    let _packs = Server::start(&serving).await?;
    let registered_ms = begin.elapsed().as_secs_f64() * 1e3;
    let agents = AGENTS.to_string();
    let sizes: Vec<&str> = size.into_iter().chain(["--agents", &agents]).collect();
    let arguments = arguments("grpc-crowd", &sizes, (&to, keys), plan, gateway.pid()?);
    let crowd: Crowd = children::role(&arguments, plan.milliseconds).await?;
    children::check(crowd.calls.clone(), AGENTS)?;
    let resident_mib = gateway.resident_mib()?;
    gateway.stop().await?;
    Ok(Many {
        packs: PACKS,
        tools: PACKS * TOOLS_EACH,
        agents: AGENTS,
        registered_ms,
        crowd,
        resident_mib,
    })
}

/// The arguments of a role that measures.
fn arguments(
    role: &str,
    own: &[&str],
    (to, keys): (&str, &Keys),
    plan: Plan,
    watch: u32,
) -> Vec<String> {
    let (milliseconds, watch) = (plan.milliseconds.to_string(), watch.to_string());
    let common =
        ["--to", to, "--key", &keys.path, "--milliseconds", &milliseconds, "--watch", &watch];
    let all = [role].into_iter().chain(own.iter().copied()).chain(common);
    all.map(str::to_owned).collect()
}

fn row(way: Way, callers: usize, rounds: &[Measured]) -> Row {
    let over = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
    let cpu: Vec<f64> = rounds.iter().filter_map(|round| round.cpu_us).collect();
    Row {
        way,
        callers,
        rps: over(|round| round.rps),
        p50_us: over(|round| round.p50_us),
        p99_us: over(|round| round.p99_us),
        cpu_us: (!cpu.is_empty()).then(|| median(cpu)),
    }
}

/// One key for all packs and agents of a run.
struct Keys {
    key: PrivateKey,
    path: String,
    _folder: TempDir,
}

impl Keys {
    fn new() -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| anyhow!("no random numbers: {error}"))?;
        let key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
        let folder = TempDir::with_prefix("drawgate-bench-")?;
        let path = folder.path().join("id_ed25519");
        key.write_openssh_file(&path, LineEnding::LF)?;
        let path = path.to_str().context("the temporary folder's path is not UTF-8")?.to_owned();
        Ok(Self { key, path, _folder: folder })
    }

    /// The list of authorised keys for so many packs and agents.
    fn list(&self, packs: usize, agents: usize) -> Result<String> {
        let key = self.key.public_key().to_openssh()?;
        let names = (0..packs).map(|number| format!("{PACK}{number}"));
        let packs = names
            .chain([LATE_PACK.to_owned()])
            .map(|name| format!("pack=\"{name}\",tools=\"*\" {key}\n"));
        let agents = (0..agents).map(|number| {
            format!("agent=\"{AGENT}{number}\",capabilities=\"{CAPABILITY}\" {key}\n")
        });
        Ok(packs.chain(agents).collect())
    }
}
