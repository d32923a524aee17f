//! From a protected server to its authorization server: the server's challenge and metadata
//! (RFC 9728), then the authorization server's (RFC 8414 and `OpenID` Connect), then, for servers from
//! before there were such metadata, the paths that they all have.

use serde_json::{Map, Value, json};

use super::address::{Address, Reach, shown};
use super::challenge::Challenge;
use super::error::LoginError;
use super::fetch::{Fetched, Target, Way, text};
use super::scopes;

const RESOURCE: &str = "the server's metadata document";
const SERVER: &str = "the authorization server's metadata document";

/// Everything that a login needs to know about the two servers.
#[derive(Debug)]
pub(super) struct Found {
    /// The protected server's identifier, exactly as it publishes it.
    pub(super) resource: String,
    /// What its challenge asked for.
    pub(super) challenged: Vec<String>,
    /// The scopes that it lists.
    pub(super) scopes: Vec<String>,
    pub(super) server: AuthorizationServer,
}

/// An authorization server.
#[derive(Debug)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    /// Where people agree; an authorization server for programs has none.
    authorization: Option<Address>,
    pub(super) token: Address,
    pub(super) registration: Option<Address>,
    pub(super) revocation: Option<Address>,
    pub(super) scopes: Vec<String>,
    /// How clients may prove who they are; `None` where it does not say.
    pub(super) methods: Option<Vec<String>>,
    /// Whether a code can be bound to who asked for it.
    pkce: bool,
    /// Whether its answers say whose they are (RFC 9207).
    pub(super) names_itself: bool,
    /// Whether a client's name may be the address of its description.
    pub(super) takes_documents: bool,
}

impl AuthorizationServer {
    /// Where people agree, if it can be done safely.
    pub(super) fn authorization(&self) -> Result<Address, LoginError> {
        if !self.pkce {
            return Err(LoginError::NoPkce(shown(&self.issuer)));
        }
        let endpoint = self
            .authorization
            .as_ref()
            .ok_or_else(|| LoginError::malformed(SERVER, "no `authorization_endpoint`"))?;
        Address::for_browser(endpoint.as_str())
            .map_err(LoginError::address("authorization_endpoint"))
    }
}

/// Looks for the authorization server of a protected server. `remembered` is what the server said
/// when it refused a request, in case that it refuses none now.
pub(super) async fn discover(
    way: Way<'_>,
    url: &Address,
    remembered: Option<Challenge>,
) -> Result<Found, LoginError> {
    let reach = reach(url)?;
    let challenge = ask(way, url).await?.or(remembered).unwrap_or_default();
    let search = Search { way, url, reach };
    match search.resource(challenge.resource_metadata.as_deref()).await? {
        Some(members) => {
            let resource = search.check_resource(&members)?;
            let issuers = members.get("authorization_servers").and_then(Value::as_array);
            let issuer = issuers.and_then(|list| list.first()).and_then(Value::as_str);
            let issuer = issuer
                .ok_or_else(|| LoginError::malformed(RESOURCE, "no `authorization_servers`"))?;
            Ok(Found {
                resource,
                challenged: challenge.scopes,
                scopes: scopes::listed(members.get("scopes_supported")),
                server: search.server(issuer).await?,
            })
        }
        None => Ok(Found {
            resource: url.as_str().to_owned(),
            challenged: challenge.scopes,
            scopes: Vec::new(),
            server: search.older_server().await?,
        }),
    }
}

/// Which addresses a login at this server may use.
pub(super) fn reach(url: &Address) -> Result<Reach, LoginError> {
    match (url.is_loopback(), url.is_secure()) {
        (true, _) => Ok(Reach::Machine),
        (false, true) => Ok(Reach::Network),
        (false, false) => Err(LoginError::Insecure(shown(url.as_str()))),
    }
}

/// A request without a token, for the sake of the challenge in its answer. A ping changes nothing.
async fn ask(way: Way<'_>, url: &Address) -> Result<Option<Challenge>, LoginError> {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let answer = Target { way, address: url, what: "the server" }.json(&ping).await?;
    Ok(Challenge::find(&answer.headers))
}

struct Search<'a> {
    way: Way<'a>,
    url: &'a Address,
    reach: Reach,
}

impl Search<'_> {
    /// The server's metadata: where its challenge says, else at the well-known places. `None` for a
    /// server that has none.
    async fn resource(
        &self,
        named: Option<&str>,
    ) -> Result<Option<Map<String, Value>>, LoginError> {
        if let Some(named) = named {
            let members = self.document(named, RESOURCE).await?;
            let missing = || LoginError::malformed(RESOURCE, format!("none at `{}`", shown(named)));
            return members.ok_or_else(missing).map(Some);
        }
        let root = format!("{}/.well-known/oauth-protected-resource", self.url.origin());
        let path = self.url.path().trim_end_matches('/');
        if !path.is_empty()
            && let Some(members) = self.document(&format!("{root}{path}"), RESOURCE).await?
        {
            return Ok(Some(members));
        }
        self.document(&root, RESOURCE).await
    }

    /// The server may call itself by its address or by a part of it that is its own: the same origin
    /// and a path above.
    fn check_resource(&self, members: &Map<String, Value>) -> Result<String, LoginError> {
        let named = text(members, "resource")
            .ok_or_else(|| LoginError::malformed(RESOURCE, "no `resource`"))?;
        let foreign =
            || LoginError::Resource { found: shown(named), expected: shown(self.url.as_str()) };
        let resource = Address::published(named, self.reach).map_err(|_| foreign())?;
        let above = resource.path().trim_end_matches('/');
        let below = self.url.path().strip_prefix(above);
        let covers = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if resource.is_same_origin(self.url) && covers {
            Ok(named.to_owned())
        } else {
            Err(foreign())
        }
    }

    /// The metadata of the authorization server with this issuer.
    async fn server(&self, issuer: &str) -> Result<AuthorizationServer, LoginError> {
        let address =
            Address::published(issuer, self.reach).map_err(LoginError::address("the issuer"))?;
        for place in places(&address) {
            if let Some(members) = self.document(&place, SERVER).await? {
                return self.validated(&members, &[issuer]);
            }
        }
        Err(LoginError::NoMetadata(shown(issuer)))
    }

    /// A server of revision 2025-03-26 is its own authorization server.
    async fn older_server(&self) -> Result<AuthorizationServer, LoginError> {
        let origin = self.url.origin();
        let address =
            Address::published(&origin, self.reach).map_err(LoginError::address("the server"))?;
        for place in places(&address) {
            if let Some(members) = self.document(&place, SERVER).await? {
                return self.validated(&members, &[&origin, &format!("{origin}/")]);
            }
        }
        let endpoint = |path: &str| {
            Address::published(&format!("{origin}{path}"), self.reach)
                .map_err(LoginError::address("the server"))
        };
        Ok(AuthorizationServer {
            authorization: Some(endpoint("/authorize")?),
            token: endpoint("/token")?,
            registration: Some(endpoint("/register")?),
            revocation: None,
            scopes: Vec::new(),
            methods: None,
            // It can't say, and all of its time do.
            pkce: true,
            names_itself: false,
            takes_documents: false,
            issuer: origin,
        })
    }

    fn validated(
        &self,
        members: &Map<String, Value>,
        expected: &[&str],
    ) -> Result<AuthorizationServer, LoginError> {
        let issuer = text(members, "issuer").unwrap_or_default();
        if !expected.contains(&issuer) {
            return Err(LoginError::Issuer {
                found: shown(issuer),
                expected: shown(expected.first().copied().unwrap_or_default()),
            });
        }
        let list = |name: &str| members.get(name).and_then(Value::as_array);
        let methods = list("code_challenge_methods_supported");
        let flag = |name: &str| members.get(name).and_then(Value::as_bool) == Some(true);
        let clients = list("token_endpoint_auth_methods_supported");
        Ok(AuthorizationServer {
            issuer: issuer.to_owned(),
            authorization: self.optional_endpoint(members, "authorization_endpoint")?,
            token: self.endpoint(members, "token_endpoint")?,
            registration: self.optional_endpoint(members, "registration_endpoint")?,
            revocation: self.optional_endpoint(members, "revocation_endpoint")?,
            scopes: scopes::listed(members.get("scopes_supported")),
            methods: clients.map(|methods| {
                methods.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }),
            pkce: methods.is_some_and(|methods| methods.iter().any(|method| method == "S256")),
            names_itself: flag("authorization_response_iss_parameter_supported"),
            takes_documents: flag("client_id_metadata_document_supported"),
        })
    }

    fn endpoint(
        &self,
        members: &Map<String, Value>,
        name: &'static str,
    ) -> Result<Address, LoginError> {
        self.optional_endpoint(members, name)?
            .ok_or_else(|| LoginError::malformed(SERVER, format!("no `{name}`")))
    }

    fn optional_endpoint(
        &self,
        members: &Map<String, Value>,
        name: &'static str,
    ) -> Result<Option<Address>, LoginError> {
        let named = text(members, name);
        let parse = |text| Address::published(text, self.reach).map_err(LoginError::address(name));
        named.map(parse).transpose()
    }

    /// A document, if it is at this place. Redirects are not followed: they could lead anywhere.
    async fn document(
        &self,
        place: &str,
        what: &'static str,
    ) -> Result<Option<Map<String, Value>>, LoginError> {
        let address = Address::published(place, self.reach).map_err(LoginError::address(what))?;
        let Fetched { status, members, .. } =
            Target { way: self.way, address: &address, what }.get().await?;
        if status.is_server_error() {
            let reason = format!("HTTP {}", status.as_u16());
            return Err(LoginError::Network { what, reason });
        }
        Ok(members.filter(|_| status.is_success()))
    }
}

/// Where an authorization server's metadata may be, the likeliest first.
fn places(issuer: &Address) -> Vec<String> {
    let origin = issuer.origin();
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use drawgate_host::egress::{Egress, Reach as Hosts};

    #[test]
    fn well_known_places_in_order() {
        let of = |text| places(&Address::parse(text).unwrap());
        assert_eq!(
            of("https://as.example"),
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            of("https://as.example/tenant1/"),
            [
                "https://as.example/.well-known/oauth-authorization-server/tenant1",
                "https://as.example/.well-known/openid-configuration/tenant1",
                "https://as.example/tenant1/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_server_speaks_for_itself_only() {
        let (egress, hosts) = (Egress::new(), Hosts::nobody());
        let way = Way { egress: &egress, reach: &hosts };
        let check = |url: &str, resource: &str| {
            let url = Address::parse(url).unwrap();
            let search = Search { way, url: &url, reach: reach(&url).unwrap() };
            let members = json!({ "resource": resource });
            search.check_resource(members.as_object().unwrap()).is_ok()
        };
        let url = "https://a.example/x/mcp";
        for (resource, accepted) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x/", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://A.example:443/x/mcp", true),
            ("https://a.example/x/mc", false),
            ("https://a.example/x/mcp/more", false),
            ("https://evil.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("https://a.example.evil.example/", false),
            ("a.example", false),
        ] {
            assert_eq!(check(url, resource), accepted, "{resource}");
        }
    }

    #[test]
    fn a_server_in_the_clear_gets_no_login() {
        let reach = |text| reach(&Address::parse(text).unwrap());
        assert!(matches!(reach("http://a.example/mcp"), Err(LoginError::Insecure(_))));
        assert_eq!(reach("https://a.example/mcp").unwrap(), Reach::Network);
        assert_eq!(reach("http://127.0.0.1:1/mcp").unwrap(), Reach::Machine);
    }
}
