//! The same address under TLS, and the services that every gRPC server has.

use std::sync::Arc;

use drawgate_sdk::proto::MessageKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::codegen::tokio_stream::{StreamExt, once};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1alpha;

use super::{full, next, output, two_packs};
use crate::peers::{RawPack, Wire, key};
use crate::support::TestFolder;

const CERTIFICATE: &[u8] = include_bytes!("../../callers/cert.pem");

async fn tls(address: &str, offers: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offers.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

fn agreed(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_tls_the_handshake_tells_packs_from_others() {
    let place = TestFolder::new("[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    std::fs::write(place.path().join("cert.pem"), CERTIFICATE).unwrap();
    let key_file = include_bytes!("../../callers/key.pem");
    std::fs::write(place.path().join("key.pem"), key_file).unwrap();
    let gateway = place.serve();
    let public = place.path().join("one.pub");
    std::fs::write(&public, key(1).public_key().to_openssh().unwrap()).unwrap();
    place.ok(&["keys", "add", "--pack", "one", public.to_str().unwrap()]);
    let address = gateway.address.strip_prefix("https://").unwrap();

    // Whoever speaks both gets the one by which everything is served.
    let both = tls(address, &[b"h2", b"http/1.1"]).await;
    assert_eq!(agreed(&both), Some(b"http/1.1".as_slice()));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(both)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/healthz").header("host", address);
    let request = request.body(axum::body::Body::empty()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), http::StatusCode::OK);

    let stream = tls(address, &[b"h2"]).await;
    assert_eq!(agreed(&stream), Some(b"h2".as_slice()));
    let wire = Wire::over(stream, "https", address).await;
    let pack = RawPack::prove(wire, "one", &key(1)).await.unwrap();
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let calling = tokio::task::spawn_blocking(move || place.ok(&["tools", "call", "work"]));
    let request = next(&mut calls, MessageKind::Execute).await;
    pack.answer(&request.request_id, output(&json!("done"))).await.unwrap();
    assert_eq!(calling.await.unwrap().trim(), "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_reflection_are_open_to_everybody() {
    let peers = two_packs("");
    let wire = peers.wire().await;
    let origin: http::Uri = peers.url().parse().unwrap();
    let mut health = HealthClient::with_origin(wire.clone(), origin.clone());
    for service in ["", "drawgate.v1.PackService", "drawgate.v1.FoldService"] {
        let asked = HealthCheckRequest { service: service.to_owned() };
        assert_eq!(health.check(asked).await.unwrap().into_inner().status, 1, "{service}");
    }
    let mut alpha = v1alpha::server_reflection_client::ServerReflectionClient::with_origin(
        wire.clone(),
        origin.clone(),
    );
    let asked = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                "drawgate.v1.PackService".to_owned(),
            ),
        ),
    };
    let mut answers = alpha.server_reflection_info(once(asked)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let described = matches!(
        answer,
        v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_)
    );
    assert!(described, "{answer:?}");
    let mut reflection = ServerReflectionClient::with_origin(wire, origin);
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = reflection.server_reflection_info(once(asked)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in ["PackService", "FoldService", "LoginService"] {
        assert!(names.contains(&format!("drawgate.v1.{service}").as_str()), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_that_is_shut_is_not_there() {
    let place = TestFolder::new("[grpc]\nenabled = false\n");
    let gateway = place.serve();
    let wire = Wire::connect(&gateway.address).await;
    assert!(wire.challenge().await.is_err());
    assert!(!gateway.tool_names(&gateway.token).await.is_empty());
}
