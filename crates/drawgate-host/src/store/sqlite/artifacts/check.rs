//! Compares artifacts with the audit events that mention them, as `artifact` of an outcome.

use std::io;

use drawgate_core::audit::Report;
use drawgate_core::store::StoreError;
use drawgate_core::{canonical, json};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use super::super::super::lock::DataDir;
use super::super::connection::read_only;
use super::Files;

/// Most missing artifacts that wait for the log's end, which tells their age.
const MAX_MISSING: usize = 100_000;

/// A check in progress.
pub(in super::super) struct ArtifactCheck {
    connection: Connection,
    files: Files,
    max_age_ms: u64,
    newest: u64,
    checked: u64,
    fault: Option<(u64, String)>,
    /// Sequence, time and hash of artifacts that are gone without a record.
    missing: Vec<(u64, u64, String)>,
}

impl ArtifactCheck {
    pub(in super::super) fn open(dir: &DataDir, max_age_ms: u64) -> Result<Self, StoreError> {
        Ok(Self {
            connection: read_only(&dir.file(DataDir::STATE))?,
            files: Files::new(dir),
            max_age_ms,
            newest: 0,
            checked: 0,
            fault: None,
            missing: Vec::new(),
        })
    }

    /// Looks at one event.
    pub(in super::super) fn event(&mut self, body: &str) {
        let Ok(Value::Object(event)) = json::parse(body.as_bytes()) else { return };
        let number = |key: &str| event.get(key).and_then(Value::as_u64).unwrap_or_default();
        let (sequence, at) = (number("sequence"), number("createdAt"));
        self.newest = self.newest.max(at);
        let Some(sha256) = event.get("artifact").and_then(Value::as_str) else { return };
        if self.fault.is_some() {
            return;
        }
        // A forged event must not make us read a file of its choice.
        if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            self.fault = Some((sequence, "its artifact is not a hash".to_owned()));
            return;
        }
        self.checked += 1;
        match self.files.read(sha256) {
            Ok(bytes) if canonical::sha256_hex(&bytes) == sha256 => {}
            Ok(_) => self.fault = Some((sequence, format!("artifact `{sha256}` was changed"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !self.was_removed(sha256) && self.missing.len() < MAX_MISSING {
                    self.missing.push((sequence, at, sha256.to_owned()));
                }
            }
            Err(error) => {
                self.fault =
                    Some((sequence, format!("artifact `{sha256}` can't be read: {error}")));
            }
        }
    }

    /// Adds what was found to the report.
    pub(in super::super) fn finish(self, report: &mut Report) {
        let horizon = self.newest.saturating_sub(self.max_age_ms);
        let lost = self.missing.iter().find(|(_, at, _)| *at >= horizon);
        if let Some((sequence, reason)) = self.fault {
            report.fault(sequence, reason);
        }
        if let Some((sequence, _, sha256)) = lost {
            report.fault(
                *sequence,
                format!("artifact `{sha256}` is missing, and was not removed by retention"),
            );
        }
        report.warnings.push(format!("{} artifacts were compared", self.checked));
    }

    fn was_removed(&self, sha256: &str) -> bool {
        // Another owner may have stored the same bytes again; then they must be there.
        let sql =
            "SELECT 1 FROM artifact WHERE sha256 = ?1 GROUP BY sha256 HAVING min(removed) = 1";
        self.connection
            .query_row(sql, [sha256], |_| Ok(()))
            .optional()
            .is_ok_and(|row| row.is_some())
    }
}
