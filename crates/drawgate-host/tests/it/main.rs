//! The host against the real machine: one binary, to link once.

// Lints treat helpers as tests only under this attribute.
#[cfg(test)]
mod egress;
#[cfg(test)]
mod library;
#[cfg(test)]
mod store;
