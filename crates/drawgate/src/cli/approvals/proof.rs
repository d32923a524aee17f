//! Shows that a person is there, or a program that they gave their token to. The gateway takes nothing
//! but the token: at a terminal this program reads it from the data folder, once the person has agreed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use drawgate_host::user_files;
use drawgate_runtime::assemble::ADMIN_TOKEN;

use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::output::Consent;

/// The option by which programs give the token.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Proof {
    /// The file with the operator's token (`admin.token` in the data folder), or `-` for standard
    /// input; without it, a person at a terminal is asked
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

impl Proof {
    /// The operator's token, if a person agrees to what is shown to them, or the token was given.
    /// Nothing if they don't agree.
    pub(in crate::cli) async fn of_consent(
        &self,
        context: &Context,
        shown: &str,
        question: &str,
    ) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.token_file {
            return read(path).map(Some);
        }
        let consent = person(context)?;
        notice!("{shown}");
        if !consent.to(question).await? {
            return Ok(None);
        }
        read(&context.data.join(ADMIN_TOKEN)).map(Some)
    }

    /// The operator's token, if a person is there to look, or the token was given.
    pub(super) fn of_presence(&self, context: &Context) -> anyhow::Result<String> {
        if let Some(path) = &self.token_file {
            return read(path);
        }
        person(context)?;
        read(&context.data.join(ADMIN_TOKEN))
    }
}

/// How the person at the terminal is asked, if there is one.
fn person(context: &Context) -> anyhow::Result<Consent> {
    match Consent::of_person(context.out) {
        Consent::Impossible => Err(Exit::Operator.error(
            "a person must do this: run it at a terminal without `--json`, or give the operator's token by `--token-file PATH`",
        )),
        consent @ (Consent::Asked | Consent::Given) => Ok(consent),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())?
    } else {
        user_files::read_to_string(path)
            .with_context(|| format!("`{}` can't be read", path.display()))?
    };
    Ok(text.trim().to_owned())
}
