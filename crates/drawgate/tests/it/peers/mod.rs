//! Packs and agents that dial in: a gateway process, a list of authorised keys, and connections at
//! every stage, from one that has said nothing to a registered pack or agent.

mod agents;
pub(crate) mod company;
pub(crate) mod fixture;
mod keys;
mod login;
mod operator;
mod packs;
mod scale;
mod wire;

pub(crate) use fixture::{Peers, key, key_line};
pub(crate) use wire::{RawAgent, RawPack, Wire, manifest, sign, tool};
