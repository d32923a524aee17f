//! The work of a run that a program does: turn after turn, until there is an answer and no message
//! waits.

use std::sync::Arc;

use drawgate_core::model::ErrorCode;
use drawgate_core::store::StoreError;
use drawgate_host::egress::{Internal, Reach};
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::{
    ArgumentPaths, Confinement, Profile as SandboxProfile, ResourceLimits,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::boxed::Start;
use super::cli::{self, Cli, Place, Reader, Setup};
use super::folder::Folders;
use super::next::{Next, Work, next};
use super::program::{Program, Token};
use super::{Machine, ProgramEndpoint};
use crate::model::Message;
use crate::profile::Invoker;
use crate::runs::ended::Finish;
use crate::runs::live::Phase;
use crate::runs::record::{CallOutcome, Ending, ModelOutcome, Report, StepBody, TurnOutcome};
use crate::runs::session::Session;

/// Lines of a program that wait to be read.
const LINES: usize = 64;
/// What introduces the earlier runs of a conversation.
const EARLIER: &str = "Earlier in this conversation:";
/// The outcome of a call that was under way when the gateway stopped.
const UNKNOWN: &str = "the gateway was restarted while the tool was called, and nobody knows whether it \
    did its work";

/// Works until there is an end. An error of the store stops the work where it is.
pub(crate) async fn work(session: Session, invoker: Invoker) -> Result<Finish, StoreError> {
    let runs = session.runs().clone();
    let programs = &runs.0.programs;
    let model = session.model_name();
    let (provider, name) = model.split_once('/').unwrap_or(("", &model));
    let api = runs.0.models.models().api_of(provider);
    if let Err(error) = programs.check(invoker, &model, api) {
        return Ok(Finish::because(Ending::Failed, error.to_string()));
    }
    let (Some(cli), Some(machine), Some(endpoint), Some(api)) =
        (cli::of(invoker), programs.machine.clone(), programs.endpoint.get().cloned(), api)
    else {
        return Ok(Finish::because(Ending::Failed, format!("the model `{model}` is gone")));
    };
    let (instructions, limits) = (session.instructions(), *session.limits());
    let (temperature, own_tools) = {
        let record = session.run().record.lock();
        (record.profile.temperature, programs.own_tools(&record.profile))
    };
    let setup = Setup {
        provider,
        api,
        model: name,
        limits: &limits,
        instructions: &instructions,
        temperature,
        own_tools: &own_tools,
    };
    let folder = machine.folder.join(&*session.run().id);
    let opened = Folders::open(folder, cli.of_home(&setup), cli.of_settings(&setup)).await;
    let folders = match opened {
        Ok(folders) => folders,
        Err(error) => {
            let reason = format!("the folder of the run can't be made: {error}");
            return Ok(Finish::because(Ending::Failed, reason));
        }
    };
    let tasks = programs.tasks_of(&session.run().id);
    let program = Arc::new(Program::new(session, tasks));
    let token = Token::new(&runs);
    let _admitted = programs.admit(&token, &program);
    let worker = Worker { program, invoker, cli, machine, endpoint, setup, folders, token };
    worker.work().await
}

/// A program with all that it needs.
struct Worker<'a> {
    program: Arc<Program>,
    invoker: Invoker,
    cli: &'static dyn Cli,
    machine: Machine,
    endpoint: Arc<dyn ProgramEndpoint>,
    setup: Setup<'a>,
    folders: Folders,
    token: Token,
}

impl Worker<'_> {
    async fn work(&self) -> Result<Finish, StoreError> {
        self.close_interrupted().await;
        loop {
            if let Some(end) = self.program.take_end() {
                return end;
            }
            let coming = next(&self.program.run().steps.lock());
            match coming {
                Next::Work(work) => self.turn(work).await?,
                Next::Failed { message } => return Ok(Finish::because(Ending::Failed, message)),
                Next::Conclude { text } => {
                    if !self.program.session.awaits_message().await? {
                        return Ok(self.program.session.concluded(&text));
                    }
                }
            }
        }
    }

    /// Gives steps an outcome that were open when the gateway stopped. An agent whose answer would have been
    /// the result of such a call is cancelled: nothing receives it.
    async fn close_interrupted(&self) {
        let steps = self.program.run().steps.lock().clone();
        for step in steps.iter().filter(|step| step.is_open()) {
            let runs = self.program.runs();
            if let Some(child) = runs.0.child_of(&self.program.run().id, step.seq) {
                let report = child.record.lock().parent.as_ref().map(|parent| parent.report);
                if report == Some(Report::Result) {
                    let _may_have_ended =
                        runs.cancel(&child.id, "the call that waited for it was lost");
                }
            }
            self.program
                .close(step.seq, |body| match body {
                    StepBody::Turn { outcome, .. } => *outcome = Some(TurnOutcome::Interrupted),
                    StepBody::Call { outcome, .. } => {
                        *outcome = Some(CallOutcome::failed(ErrorCode::Unavailable, UNKNOWN));
                    }
                    StepBody::Model { reserved, outcome, .. } => {
                        // It was counted as spent when the pools were opened again.
                        *outcome = Some(ModelOutcome::Failed {
                            kind: None,
                            message: "the gateway was stopped before the answer came".to_owned(),
                            spent: *reserved,
                        });
                    }
                    StepBody::Message { .. }
                    | StepBody::Trimmed { .. }
                    | StepBody::Summary { .. } => {}
                })
                .await;
        }
    }

    /// Lets the program work until it ends.
    async fn turn(&self, work: Work) -> Result<(), StoreError> {
        let program = &self.program;
        let fresh = uuid(&program.runs().0.gateway.ids().secret());
        let place = Place {
            home: &self.folders.home,
            settings: &self.folders.settings,
            token: self.token.expose(),
            resumed: work.session.as_deref(),
            fresh: &fresh,
        };
        let mut launch = self.cli.launch(&self.setup, &place);
        let session = launch.session.take();
        let seq = program.begin(StepBody::Turn { session, outcome: None }).await?;
        program.run().set_phase(Phase::Thinking, program.session.now());
        let (sender, mut lines) = mpsc::channel(LINES);
        let start = Start {
            host: Arc::clone(&self.machine.host),
            spawn: self.spawn(launch),
            prompt: self.prompt(work),
            lines: sender,
            killed: program.killed.clone(),
            refused: program.has_end.clone(),
            asked: program.expect_request(),
        };
        let ended = program.tasks.spawn(start.run());
        let mut reader = self.cli.reader();
        while let Some(line) = lines.recv().await {
            if let Some(name) = reader.line(&line) {
                program.name_session(seq, name).await?;
            }
        }
        let outcome = match ended.await {
            Ok(Ok(exit)) => self.outcome(reader, &exit),
            Ok(Err(reason)) => self.failed(&reason),
            Err(error) => self.failed(&error.to_string()),
        };
        // What was under way for the program ends with it, and is counted first.
        program.tasks.close();
        program.tasks.wait().await;
        program.tasks.reopen();
        program
            .close(seq, |body| {
                if let StepBody::Turn { outcome: kept, .. } = body {
                    *kept = Some(outcome);
                }
            })
            .await;
        Ok(())
    }

    /// What the program reads. A new conversation begins with the earlier runs of its thread.
    fn prompt(&self, work: Work) -> String {
        let history = &self.program.run().history;
        if work.session.is_some() || history.is_empty() {
            return work.prompt;
        }
        let said = history.iter().filter_map(|message| match message {
            Message::User(text) => Some(format!("User: {text}")),
            Message::Model(reply) => Some(format!("You: {}", reply.text())),
            Message::Results(_) => None,
        });
        let said = said.collect::<Vec<_>>().join("\n\n");
        format!("{EARLIER}\n\n{said}\n\nNow:\n\n{}", work.prompt)
    }

    fn outcome(&self, reader: Box<dyn Reader>, exit: &super::boxed::Exit) -> TurnOutcome {
        match reader.end() {
            Some(Ok(text)) => TurnOutcome::Answered { text },
            Some(Err(said)) => self.failed(&said),
            None if exit.complaints.is_empty() => {
                self.failed(&format!("it ended without an answer ({})", exit.status))
            }
            None => self.failed(&format!(
                "it ended without an answer ({}): {}",
                exit.status, exit.complaints
            )),
        }
    }

    fn failed(&self, reason: &str) -> TurnOutcome {
        let reason = reason.replace(self.token.expose(), "***");
        TurnOutcome::Failed { message: format!("`{}`: {reason}", self.invoker.as_str()) }
    }

    fn spawn(&self, launch: cli::Launch) -> Spawn {
        let settings = self.program.runs().0.programs.settings.load();
        let config = settings.invokers.get(self.invoker).cloned();
        let (command, mut args, mut read, write, memory_mb) = config
            .map_or_else(Default::default, |config| {
                (config.command, config.args, config.read, config.write, config.memory_mb)
            });
        args.extend(launch.args);
        read.push(self.folders.settings.clone());
        let limits = ResourceLimits {
            memory_mb: memory_mb.unwrap_or(settings.limits.memory_mb),
            ..settings.limits
        };
        let run = Arc::clone(&self.program.run().id);
        let way = Way { run, endpoint: Arc::clone(&self.endpoint) };
        let unprotected = self.cli.unprotected().iter().map(|name| (*name).to_owned());
        Spawn {
            program: command,
            args,
            env: launch.env,
            working_dir: Some(self.folders.home.clone()),
            confinement: Some(Confinement {
                profile: SandboxProfile::Network,
                workspace: self.folders.home.clone(),
                read,
                write,
                arguments: ArgumentPaths::Ignored,
                reach: Reach::nobody(),
                internal: Some(Arc::new(way)),
                unprotected: unprotected.collect(),
                limits,
            }),
            ..Spawn::default()
        }
    }
}

/// The way from a program's sandbox to the gateway.
struct Way {
    run: Arc<str>,
    endpoint: Arc<dyn ProgramEndpoint>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Internal for Way {
    fn connect(&self) -> DuplexStream {
        self.endpoint.connect(&self.run)
    }
}

/// A random UUID from hexadecimal digits.
fn uuid(digits: &str) -> String {
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}
