//! Changes of the list by an operator.

use anyhow::{Context, bail};
use drawgate_sdk::statement::Purpose;

use super::PeerAuthenticator;
use crate::peers::line::{MAX_LINE, read_line};
use crate::peers::list::without;
use crate::peers::{KeyList, KeyTerms, Selection};

/// A key that is authorised for the same pack or agent already.
#[derive(Debug, thiserror::Error)]
#[error("this key is already authorised for {purpose} `{name}`, in line {line}")]
pub struct KeyExists {
    /// A pack or an agent.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: String,
    /// `SHA256:` and the key's fingerprint.
    pub fingerprint: String,
    /// Where it stands in the file.
    pub line: usize,
}

impl PeerAuthenticator {
    /// What adding this line would authorise, or why it can't be added.
    pub fn would_add(&self, line: &str) -> anyhow::Result<KeyTerms> {
        if line.contains('\n') || line.len() > MAX_LINE {
            bail!("a key and its options must be on one line of at most {MAX_LINE} bytes");
        }
        let list = KeyList::read(line.as_bytes(), self.parts.reserved.as_deref());
        if let Some((_, fault)) = list.faults().first() {
            bail!("{fault}");
        }
        let read = read_line(line.as_bytes())?;
        let (_, terms) = read.context("there is no key")?;
        let present = self.present()?;
        if let Ok(entry) = present.find(&terms.fingerprint, terms.purpose, &terms.name) {
            let KeyTerms { purpose, name, fingerprint, .. } = terms;
            bail!(KeyExists { purpose, name, fingerprint, line: entry.line });
        }
        Ok(terms)
    }

    /// Adds a line that [`Self::would_add`] has checked. Takes effect immediately.
    pub fn add(&self, line: &str) -> anyhow::Result<()> {
        self.change(|mut bytes| {
            if bytes.last().is_some_and(|last| *last != b'\n') {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            bytes
        })
    }

    /// What the selected keys stand for.
    pub fn would_remove(&self, selection: &Selection) -> anyhow::Result<Vec<KeyTerms>> {
        Ok(without(&self.parts.keys.read()?, selection).1)
    }

    /// Removes the selected keys. Their peers are cut at once.
    pub fn remove(&self, selection: &Selection) -> anyhow::Result<()> {
        self.change(|bytes| without(&bytes, selection).0)
    }

    fn change(&self, edit: impl FnOnce(Vec<u8>) -> Vec<u8>) -> anyhow::Result<()> {
        let keys = &self.parts.keys;
        let failed = || format!("`{}` can't be written", keys.path().display());
        keys.check_place()?;
        let edit_lock = keys.lock().with_context(failed)?;
        let bytes = edit(keys.read()?);
        keys.write(&bytes).with_context(failed)?;
        drop(edit_lock);
        drop(self.reload());
        Ok(())
    }

    fn present(&self) -> anyhow::Result<KeyList> {
        Ok(KeyList::read(&self.parts.keys.read()?, self.parts.reserved.as_deref()))
    }
}
