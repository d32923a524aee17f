//! Who sends a request, and what of the registry that caller may use.

pub(crate) mod request;
pub(crate) mod view;
