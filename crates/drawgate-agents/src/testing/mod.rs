//! Servers that stand in for providers of models.

pub mod fake_models;
