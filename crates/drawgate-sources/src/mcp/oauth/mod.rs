//! Logins at protected MCP servers: OAuth 2.1 with PKCE, by the rules of the MCP authorization
//! specification. A [`ServerLogin`] finds the authorization server, has a person agree in a browser,
//! keeps the tokens sealed, and renews them before they expire. With the client-credentials grant it
//! does all that without a person.
//!
//! Who may log in and what is written down about it is the caller's business; requests to the
//! protected server itself are too: they get their header from
//! [`Bearer`](drawgate_host::credentials::Bearer).

mod address;
mod assertion;
mod attempt;
mod browser;
mod challenge;
mod credentials;
mod discovery;
mod error;
mod fetch;
mod flow;
mod form;
mod listener;
mod login;
mod logins;
mod pkce;
mod refresh;
mod registration;
mod scopes;
mod stored_login;
mod tokens;

pub use address::Address;
pub use attempt::PendingLogin;
pub use error::{LoginError, LoginNeeded};
pub use login::{Grant, LoginSettings, LoginState, LoginSummary, ServerLogin};
pub use logins::{LoginTarget, Logins, StoredLogins};
