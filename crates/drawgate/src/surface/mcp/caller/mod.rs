//! Who sends a request, and what of the registry that caller may use.

pub(crate) mod peer;
pub(crate) mod request;
pub(crate) mod transport;
pub(crate) mod view;
