//! The upstream over stdin and stdout: one message a line.

use std::io::{BufRead, Write};

use anyhow::Result;

use super::answers::{Answers, Reply, refusal};

/// Answers line by line until stdin ends.
pub(super) fn serve(answers: &Answers) -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(message) => answers.reply(&message),
            Err(error) => Reply::Message(refusal(&error.to_string())),
        };
        match reply {
            Reply::Nothing => {}
            Reply::Opened { mut body, .. } | Reply::Message(mut body) => {
                body.push('\n');
                output.write_all(body.as_bytes())?;
                output.flush()?;
            }
        }
    }
    Ok(())
}
